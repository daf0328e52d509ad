// Goal: what a rank calls instead differs from what was called, fits into the caller's buffers, and
// is refused with a text wherever it would not. Method: every function against every replacement,
// judged by the sizes that the fixture works out for itself; the texts literally.
#include "layer/payload/mismatch.hpp"

#include <gtest/gtest.h>

#include "layer/payload/payload_fixture.hpp"

namespace sabot::layer {
namespace {

using scenario::Act;
using scenario::MismatchKind;

Act mismatch(MismatchKind kind, std::int64_t to) {
  Act act;
  act.kind = scenario::ActionKind::kMismatch;
  act.mismatch = kind;
  act.to_number = to;
  return act;
}
Act other_call(Id function) {
  Act act = mismatch(MismatchKind::kCall, 0);
  act.to_function = function;
  return act;
}

std::vector<Act> every_act() {
  std::vector<Act> acts;
  for (const std::int64_t count : {0, 1, 2, 3, 17, 1 << 20})
    acts.push_back(mismatch(MismatchKind::kCount, count));
  for (int datatype = -1; datatype <= kDataTypeCount; ++datatype)
    acts.push_back(mismatch(MismatchKind::kDatatype, datatype));
  for (int redop = -1; redop < 6; ++redop) acts.push_back(mismatch(MismatchKind::kRedop, redop));
  for (int root = -1; root < 5; ++root) acts.push_back(mismatch(MismatchKind::kRoot, root));
  for (const abi::FunctionInfo& info : abi::all_functions()) acts.push_back(other_call(info.id));
  return acts;
}

std::string outcome(const Act& act, const abi::Call& call, const MismatchSetting& setting = {}) {
  const Result<Mismatched> made = mismatch_of(act, call, setting);
  return made.ok() ? made->text : made.error().message();
}
std::string outcome(const Act& act, const Given& given, const MismatchSetting& setting = {}) {
  return outcome(act, MadeCall(given).call, setting);
}

bool differs(const Mismatched& made, const abi::Call& call) {
  return made.function != call.function || made.count != call.count ||
         static_cast<int>(made.datatype) != call.datatype ||
         (call.redop >= 0 && static_cast<int>(made.redop) != call.redop) ||
         (call.root >= 0 && made.root != call.root);
}

// Whether a buffer of so many bytes at this address lies in one of the caller's.
bool is_within(const void* at, std::uint64_t bytes, Guarded& buffer) {
  const auto* first = static_cast<const std::byte*>(at);
  return bytes == 0 || (first >= buffer.data() && first + bytes <= buffer.data() + buffer.size());
}

TEST(Mismatch, NeverNeedsMoreThanTheCallersBuffersForAnyFunctionTypeWorldAndReplacement) {
  std::uint64_t made_count = 0;
  std::uint64_t refused_count = 0;
  const std::vector<Act> acts = every_act();
  for (const std::uint64_t count : {1U, 2U, 17U})
    for_each_call(count, {2, 3, 4}, {0, 6, 7, 8}, [&](const Given& given) {
      MadeCall caller(given);
      for (const Act& act : acts) {
        const Result<Mismatched> made = mismatch_of(act, caller.call, {});
        if (!made.ok()) {
          EXPECT_FALSE(made.error().message().empty());
          ++refused_count;
          continue;
        }
        ++made_count;
        const Given now{made->function, made->count, made->datatype,
                        given.ranks,    given.rank,  made->root};
        const std::uint64_t input = input_bytes(now);
        const bool is_safe = (is_within(made->send, input, caller.input) ||
                              is_within(made->send, input, caller.output)) &&
                             is_within(made->recv, output_bytes(now), caller.output);
        EXPECT_TRUE(is_safe) << abi::info(given.function).name << ": " << made->text;
        EXPECT_TRUE(differs(*made, caller.call)) << made->text;
        EXPECT_NE(made->text, "");
      }
    });
  EXPECT_GT(made_count, 5000U);
  EXPECT_GT(refused_count, 5000U);
}

TEST(Mismatch, OfACountIsASmallerOne) {
  const Given given{Id::kAllReduce, 1024, 7, 2, 0, 0};
  EXPECT_EQ(outcome(mismatch(MismatchKind::kCount, 17), given), "count 17 instead of 1024");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kCount, 0), given), "count 0 instead of 1024");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kCount, 1024), given),
            "ncclAllReduce is left as it is: its count is 1024 already, so nothing would differ");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kCount, 2048), given),
            "ncclAllReduce is left as it is: its buffers hold 1024 elements, a count of 2048 needs "
            "more; ask for a smaller one");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kCount, 3), {Id::kSend, 8, 7, 2, 0, 0}),
            "count 3 instead of 8");
}

TEST(Mismatch, OfADataTypeIsOneThatIsNotLarger) {
  const Given given{Id::kAllReduce, 8, 7, 2, 0, 0};
  EXPECT_EQ(outcome(mismatch(MismatchKind::kDatatype, 9), given),
            "data type bfloat16 instead of float32");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kDatatype, 2), given),
            "data type int32 instead of float32");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kDatatype, 8), given),
            "ncclAllReduce is left as it is: its buffers hold elements of float32, those of "
            "float64 are larger; ask for a data type that is not");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kDatatype, 12), given),
            "ncclAllReduce is left as it is: 12 is no data type of NCCL");
  MadeCall created(given);
  created.call.redop = 5;
  EXPECT_EQ(outcome(mismatch(MismatchKind::kDatatype, 9), created.call),
            "ncclAllReduce is left as it is: the application made its reduction for float32 alone");
}

TEST(Mismatch, OfAReductionIsABuiltInOne) {
  const Given given{Id::kReduceScatter, 8, 7, 2, 0, 0};
  EXPECT_EQ(outcome(mismatch(MismatchKind::kRedop, 2), given), "reduction max instead of sum");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kRedop, 7), given),
            "ncclReduceScatter is left as it is: 7 is no built-in reduction of NCCL");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kRedop, 2), {Id::kAllGather, 8, 7, 2, 0, 0}),
            "ncclAllGather is left as it is: it has no reduction");
  MadeCall created(given);
  created.call.redop = 5;
  EXPECT_EQ(outcome(mismatch(MismatchKind::kRedop, 0), created.call),
            "reduction sum instead of user");
}

TEST(Mismatch, OfARootNeverTurnsARankIntoARootItHasNoBuffersFor) {
  const Act to_two = mismatch(MismatchKind::kRoot, 2);
  EXPECT_EQ(outcome(to_two, {Id::kReduce, 8, 7, 3, 1, 0}), "root 2 instead of 0");
  EXPECT_EQ(outcome(to_two, {Id::kReduce, 8, 7, 3, 0, 0}), "root 2 instead of 0");
  EXPECT_EQ(outcome(to_two, {Id::kReduce, 8, 7, 3, 2, 0}),
            "ncclReduce is left as it is: rank 2 would need an output buffer of 32 bytes for root "
            "2 instead of 0, and brought none as large");
  EXPECT_EQ(outcome(to_two, {Id::kScatter, 8, 7, 3, 2, 0}),
            "ncclScatter is left as it is: rank 2 would need an input buffer of 96 bytes for root "
            "2 instead of 0, and brought none as large");
  EXPECT_EQ(outcome(to_two, {Id::kAllReduce, 8, 7, 3, 2, 0}),
            "ncclAllReduce is left as it is: it has no root");
  EXPECT_EQ(outcome(mismatch(MismatchKind::kRoot, 3), {Id::kReduce, 8, 7, 3, 1, 0}),
            "ncclReduce is left as it is: root 3 is no rank of its communicator of 3");
}

TEST(Mismatch, MakesABroadcastersInputOfTheOutputBufferOfARankThatHasNoOther) {
  MadeCall caller({Id::kBroadcast, 8, 7, 3, 2, 0});
  const Result<Mismatched> made = mismatch_of(mismatch(MismatchKind::kRoot, 2), caller.call, {});
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->send, caller.output.data());
  EXPECT_EQ(made->recv, caller.output.data());
}

TEST(Mismatch, OfTheCallTakesAsManyElementsAsFit) {
  const Given all_reduce{Id::kAllReduce, 9, 7, 4, 1, 0};
  EXPECT_EQ(outcome(other_call(Id::kBroadcast), all_reduce),
            "ncclBroadcast of 9 elements with root 0 instead of ncclAllReduce of 9");
  EXPECT_EQ(outcome(other_call(Id::kAllGather), all_reduce),
            "ncclAllGather of 2 elements instead of ncclAllReduce of 9");
  EXPECT_EQ(outcome(other_call(Id::kAllReduce), {Id::kReduceScatter, 9, 7, 4, 1, 0}),
            "ncclAllReduce of 9 elements instead of ncclReduceScatter of 9");
  EXPECT_EQ(outcome(other_call(Id::kReduce), {Id::kBroadcast, 9, 7, 4, 1, 3}),
            "ncclReduce of 9 elements with root 3 instead of ncclBroadcast of 9");
  EXPECT_EQ(outcome(other_call(Id::kAllGather), {Id::kAllReduce, 3, 7, 4, 1, 0}),
            "ncclAllReduce is left as it is: its buffers are too small for one element of "
            "ncclAllGather");
  EXPECT_EQ(outcome(other_call(Id::kAllReduce), {Id::kReduce, 3, 7, 4, 1, 0}),
            "ncclReduce is left as it is: its buffers are too small for one element of "
            "ncclAllReduce");
  EXPECT_EQ(outcome(other_call(Id::kBcast), {Id::kBroadcast, 3, 7, 4, 1, 0}),
            "ncclBroadcast is left as it is: it is ncclBcast already, so nothing would differ");
  EXPECT_EQ(outcome(other_call(Id::kSend), all_reduce),
            "ncclAllReduce is left as it is: what should take its place is no collective");
  EXPECT_EQ(outcome(other_call(Id::kAllReduce), {Id::kSend, 9, 7, 4, 1, 0}),
            "ncclSend is left as it is: it is no collective");
}

TEST(Mismatch, IsRefusedWhereItTellsNobodyAnything) {
  const Act act = mismatch(MismatchKind::kDatatype, 0);
  EXPECT_EQ(outcome(act, {Id::kAllReduce, 8, 7, 1, 0, 0}),
            "ncclAllReduce is left as it is: the communicator has one rank, nobody could disagree "
            "with it");
  EXPECT_EQ(outcome(act, {Id::kAllReduce, 0, 7, 2, 0, 0}),
            "ncclAllReduce is left as it is: with a count of 0 it tells its peers nothing");
  EXPECT_EQ(outcome(act, {Id::kPutSignal, 8, 7, 2, 0, 0}),
            "ncclPutSignal is left as it is: it is one-sided, its peer does not say what it "
            "expects");
}

TEST(Mismatch, IsRefusedOnTheRealLibraryWherePeersReachThisRanksBuffers) {
  const Given given{Id::kAllReduce, 8, 7, 2, 0, 0};
  const Act act = mismatch(MismatchKind::kCount, 4);
  EXPECT_EQ(outcome(act, given, {.is_real = true}), "count 4 instead of 8");
  EXPECT_EQ(outcome(act, given, {.is_real = true, .shares_process = true}),
            "ncclAllReduce is left as it is: another rank of its communicator lives in this "
            "process, and NCCL lets such ranks write into each other's buffers");
  EXPECT_EQ(outcome(act, given, {.is_real = true, .has_registered = true}),
            "ncclAllReduce is left as it is: buffers are registered with its communicator, and "
            "NCCL lets peers write into those");
  EXPECT_EQ(outcome(act, given, {.is_real = true, .is_captured = true}),
            "ncclAllReduce is left as it is: its stream is being captured, and NCCL lets peers "
            "write into the buffers of a graph");
  // The host engine compares what ranks call before any byte moves.
  EXPECT_EQ(outcome(act, given, {.shares_process = true, .has_registered = true}),
            "count 4 instead of 8");
}

// An engine that notes what it was given; one slot for each collective.
struct Noted {
  Id function{};
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int root_or_peer = -1;
  int redop = -1;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  abi::Call call;
};

abi::ApiTable noting_table() {
  abi::ApiTable table{};
  const auto fill = []<typename R, typename... A>(R (*&slot)(void*, abi::Call*, A...)) {
    slot = [](void* self, abi::Call* call, A... arguments) -> R {
      auto& noted = *static_cast<Noted*>(self);
      noted.call = *call;
      noted.function = call->function;
      const auto note = [&noted]<typename T>(T value) {
        if constexpr (std::is_same_v<T, const void*>) noted.send = value;
        if constexpr (std::is_same_v<T, void*>) noted.recv = value;
        if constexpr (std::is_same_v<T, std::size_t>) noted.count = value;
        if constexpr (std::is_same_v<T, int>) noted.root_or_peer = value;
        if constexpr (std::is_same_v<T, ncclRedOp_t>) noted.redop = value;
        if constexpr (std::is_same_v<T, ncclComm_t>) noted.comm = value;
        if constexpr (std::is_same_v<T, cudaStream_t>) noted.stream = value;
      };
      (note(arguments), ...);
      call->injected = true;
      return ncclInProgress;
    };
  };
  fill(table.AllReduce);
  fill(table.Reduce);
  fill(table.Broadcast);
  fill(table.Bcast);
  fill(table.AllGather);
  fill(table.ReduceScatter);
  fill(table.AlltoAll);
  fill(table.Gather);
  fill(table.Scatter);
  fill(table.Send);
  fill(table.Recv);
  return table;
}

TEST(ForwardOther, CallsEachCollectiveWithTheReplacementOnTheSameCommAndStream) {
  const abi::ApiTable table = noting_table();
  for (const Id to : kPayloadFunctions) {
    if (abi::info(to).kind != abi::Kind::collective) continue;
    const Id from = to == Id::kAlltoAll ? Id::kAllReduce : Id::kAlltoAll;
    MadeCall caller({from, 12, 7, 3, 0, 0});
    int comm = 0;
    int stream = 0;
    caller.call.comm = &comm;
    caller.call.stream = &stream;
    const Result<Mismatched> made = mismatch_of(other_call(to), caller.call, {});
    ASSERT_TRUE(made.ok()) << made.error().message();

    Noted noted;
    EXPECT_EQ(forward_other({&table, &noted}, caller.call, *made), ncclInProgress);
    EXPECT_EQ(noted.function, to);
    if (to != Id::kBcast) {
      EXPECT_EQ(noted.send, caller.input.data());
    }
    EXPECT_EQ(noted.recv, caller.output.data());
    EXPECT_EQ(noted.count, to == Id::kAlltoAll ? 4U : 12U);
    EXPECT_EQ(noted.root_or_peer, abi::info(to).has_root ? 0 : -1);
    EXPECT_EQ(noted.redop, abi::info(to).has_redop ? 0 : -1);
    EXPECT_EQ(static_cast<const void*>(noted.comm), &comm);
    EXPECT_EQ(static_cast<const void*>(noted.stream), &stream);
    EXPECT_EQ(noted.call.count, noted.count);
    EXPECT_EQ(noted.call.bytes, noted.count * 4);
    EXPECT_EQ(noted.call.root, noted.root_or_peer);
    EXPECT_EQ(noted.call.redop, noted.redop);
    EXPECT_EQ(caller.call.function, from);
    EXPECT_TRUE(caller.call.injected);
  }
}

TEST(ForwardOther, MakesASendAndAReceiveWithFewerElementsToTheSamePeer) {
  const abi::ApiTable table = noting_table();
  for (const Id function : {Id::kSend, Id::kRecv}) {
    MadeCall caller({function, 12, 7, 3, 0, 0});
    caller.call.peer = 2;
    const Result<Mismatched> made = mismatch_of(mismatch(MismatchKind::kCount, 5), caller.call, {});
    ASSERT_TRUE(made.ok()) << made.error().message();
    Noted noted;
    EXPECT_EQ(forward_other({&table, &noted}, caller.call, *made), ncclInProgress);
    EXPECT_EQ(noted.function, function);
    EXPECT_EQ(noted.send, caller.call.send);
    EXPECT_EQ(noted.recv, caller.call.recv);
    EXPECT_EQ(noted.count, 5U);
    EXPECT_EQ(noted.root_or_peer, 2);
    EXPECT_EQ(noted.call.peer, 2);
    EXPECT_EQ(noted.call.bytes, 20U);
  }
}

}  // namespace
}  // namespace sabot::layer
