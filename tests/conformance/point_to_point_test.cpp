// Send and receive: rings, pairs, oneself, order, sizes that differ, and groups that mix them with
// collectives.
#include "array.hpp"
#include "world.hpp"

namespace sabot::conformance {
namespace {

using Words = std::vector<std::uint32_t>;

// Tells sender, receiver, message and element apart.
Words message(int from, int to, int number, std::size_t count) {
  Words words(count);
  for (std::size_t i = 0; i < count; ++i)
    words[i] = static_cast<std::uint32_t>(from * 1000000 + to * 100000 + number * 10000) +
               static_cast<std::uint32_t>(i);
  return words;
}

class PointToPoint : public WithRanks {};

TEST_P(PointToPoint, ARingInOneGroupShiftsByOneRank) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const int next = (own.rank + 1) % own.ranks;
    const int previous = (own.rank + own.ranks - 1) % own.ranks;
    const Array<std::uint32_t> out(message(own.rank, next, 0, 1023), own.stream);
    const Array<std::uint32_t> in(1023, own.stream);
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(Send(out.data(), out.size(), ncclUint32, next, own.comm, own.stream));
    MUST_SUCCEED(Recv(in.data(), in.size(), ncclUint32, previous, own.comm, own.stream));
    MUST_SUCCEED(GroupEnd());
    return wrong(differs("received", in.get(), message(previous, own.rank, 0, 1023)));
  });
}

TEST_P(PointToPoint, ARankMaySendToItselfInAGroup) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const Array<std::uint32_t> out(message(own.rank, own.rank, 0, 17), own.stream);
    const Array<std::uint32_t> in(17, own.stream);
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(Recv(in.data(), in.size(), ncclUint32, own.rank, own.comm, own.stream));
    MUST_SUCCEED(Send(out.data(), out.size(), ncclUint32, own.rank, own.comm, own.stream));
    MUST_SUCCEED(GroupEnd());
    return wrong(differs("received", in.get(), message(own.rank, own.rank, 0, 17)));
  });
}

std::size_t pair_count(int from, int to) {
  return static_cast<std::size_t>(from * 301 + to * 17) % 1201;  // 0 for rank 0 to itself
}

TEST_P(PointToPoint, EveryPairExchangesMessagesOfItsOwnSizeInOneGroup) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    std::vector<std::unique_ptr<Array<std::uint32_t>>> out;
    std::vector<std::unique_ptr<Array<std::uint32_t>>> in;
    for (int peer = 0; peer < own.ranks; ++peer) {
      out.push_back(std::make_unique<Array<std::uint32_t>>(
          message(own.rank, peer, 0, pair_count(own.rank, peer)), own.stream));
      in.push_back(std::make_unique<Array<std::uint32_t>>(pair_count(peer, own.rank), own.stream));
    }
    MUST_SUCCEED(GroupStart());
    for (int peer = 0; peer < own.ranks; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      MUST_SUCCEED(Send(out[at]->data(), out[at]->size(), ncclUint32, peer, own.comm, own.stream));
      MUST_SUCCEED(Recv(in[at]->data(), in[at]->size(), ncclUint32, peer, own.comm, own.stream));
    }
    MUST_SUCCEED(GroupEnd());
    for (int peer = 0; peer < own.ranks; ++peer) {
      const Words wanted = message(peer, own.rank, 0, pair_count(peer, own.rank));
      const std::string wrong_at =
          differs("received", in[static_cast<std::size_t>(peer)]->get(), wanted);
      if (!wrong_at.empty()) return wrong("from rank " + std::to_string(peer) + " " + wrong_at);
    }
    return {};
  });
}

TEST_P(PointToPoint, MessagesBetweenTwoRanksKeepTheirOrder) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const int peer = own.rank ^ 1;  // neighbours in pairs; the last of an odd world has none
    if (peer >= own.ranks) return {};
    const Array<std::uint32_t> first(message(own.rank, peer, 1, 5), own.stream);
    const Array<std::uint32_t> second(message(own.rank, peer, 2, 700), own.stream);
    const Array<std::uint32_t> got_first(5, own.stream);
    const Array<std::uint32_t> got_second(700, own.stream);
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(Send(first.data(), 5, ncclUint32, peer, own.comm, own.stream));
    MUST_SUCCEED(Recv(got_first.data(), 5, ncclUint32, peer, own.comm, own.stream));
    MUST_SUCCEED(Send(second.data(), 700, ncclUint32, peer, own.comm, own.stream));
    MUST_SUCCEED(Recv(got_second.data(), 700, ncclUint32, peer, own.comm, own.stream));
    MUST_SUCCEED(GroupEnd());
    const std::string early = differs("first", got_first.get(), message(peer, own.rank, 1, 5));
    if (!early.empty()) return wrong(early);
    return wrong(differs("second", got_second.get(), message(peer, own.rank, 2, 700)));
  });
}

TEST_P(PointToPoint, ALoneSendMeetsALoneReceive) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    // Along a chain, so that no rank needs to do two things at once.
    const Words cargo = message(0, 0, 3, 4097);
    const Array<std::uint32_t> box(own.rank == 0 ? cargo : Words(cargo.size()), own.stream);
    if (own.rank > 0)
      MUST_SUCCEED(Recv(box.data(), 4097, ncclUint32, own.rank - 1, own.comm, own.stream));
    if (own.rank + 1 < own.ranks)
      MUST_SUCCEED(Send(box.data(), 4097, ncclUint32, own.rank + 1, own.comm, own.stream));
    return wrong(differs("passed on", box.get(), cargo));
  });
}

TEST_P(PointToPoint, EveryTypeIsMovedUnchanged) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    for (int i = 0; i < kTypeCount; ++i) {
      const auto type = static_cast<ncclDataType_t>(i);
      if (!reason_without_type(type).empty()) continue;
      const int next = (own.rank + 1) % own.ranks;
      const int previous = (own.rank + own.ranks - 1) % own.ranks;
      const std::size_t bytes = 259 * bytes_of(type);
      std::vector<std::uint8_t> out_bytes(bytes);
      std::vector<std::uint8_t> wanted(bytes);
      for (std::size_t at = 0; at < bytes; ++at) {
        out_bytes[at] = static_cast<std::uint8_t>(moved_bits(7, own.rank, at));
        wanted[at] = static_cast<std::uint8_t>(moved_bits(7, previous, at));
      }
      const Array<std::uint8_t> out(out_bytes, own.stream);
      const Array<std::uint8_t> in(bytes, own.stream);
      MUST_SUCCEED(GroupStart());
      MUST_SUCCEED(Send(out.data(), 259, type, next, own.comm, own.stream));
      MUST_SUCCEED(Recv(in.data(), 259, type, previous, own.comm, own.stream));
      MUST_SUCCEED(GroupEnd());
      const std::string difference = differs(name_of(type).c_str(), in.get(), wanted);
      if (!difference.empty()) return wrong(difference);
    }
    return {};
  });
}

class Groups : public WithRanks {};

TEST_P(Groups, MixCollectivesWithPointToPoint) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const int next = (own.rank + 1) % own.ranks;
    const int previous = (own.rank + own.ranks - 1) % own.ranks;
    const Array<std::uint32_t> sum(Words(100, static_cast<std::uint32_t>(own.rank)), own.stream);
    const Array<std::uint32_t> out(message(own.rank, next, 4, 50), own.stream);
    const Array<std::uint32_t> in(50, own.stream);
    const Array<std::uint32_t> shared(message(own.rank, 0, 5, 9), own.stream);
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(AllReduce(sum.data(), sum.data(), 100, ncclUint32, ncclSum, own.comm, own.stream));
    MUST_SUCCEED(Send(out.data(), 50, ncclUint32, next, own.comm, own.stream));
    MUST_SUCCEED(Recv(in.data(), 50, ncclUint32, previous, own.comm, own.stream));
    MUST_SUCCEED(Broadcast(shared.data(), shared.data(), 9, ncclUint32, own.ranks - 1, own.comm,
                           own.stream));
    MUST_SUCCEED(GroupEnd());
    const auto total = static_cast<std::uint32_t>(own.ranks * (own.ranks - 1) / 2);
    std::string difference = differs("sum", sum.get(), Words(100, total));
    if (difference.empty())
      difference = differs("received", in.get(), message(previous, own.rank, 4, 50));
    if (difference.empty())
      difference = differs("broadcast", shared.get(), message(own.ranks - 1, 0, 5, 9));
    return wrong(difference);
  });
}

TEST_P(Groups, NestedGroupsRunAtTheOutermostEnd) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const Array<float> a(std::vector<float>(31, 1.0f), own.stream);
    const Array<float> b(std::vector<float>(7, 2.0f), own.stream);
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(AllReduce(a.data(), a.data(), 31, ncclFloat32, ncclSum, own.comm, own.stream));
    MUST_SUCCEED(GroupStart());
    MUST_SUCCEED(AllReduce(b.data(), b.data(), 7, ncclFloat32, ncclProd, own.comm, own.stream));
    MUST_SUCCEED(GroupEnd());
    if (own.ranks > 1 && b.get() != std::vector<float>(7, 2.0f))
      return out_of_step("the inner end already ran the group");
    MUST_SUCCEED(GroupEnd());
    const std::string difference =
        differs("sum", a.get(), std::vector<float>(31, static_cast<float>(own.ranks)));
    if (!difference.empty()) return wrong(difference);
    return wrong(
        differs("product", b.get(), std::vector<float>(7, static_cast<float>(1 << own.ranks))));
  });
}

TEST_P(Groups, ARefusedCallLeavesTheCommunicatorUsable) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const Array<float> data(std::vector<float>(5, 1.0f), own.stream);
    MUST_SUCCEED(GroupStart());
    const ncclResult_t refused =
        nccl().Broadcast(data.data(), data.data(), 5, ncclFloat32, own.ranks, own.comm, own.stream);
    const ncclResult_t end = nccl().GroupEnd();
    if (refused != ncclInvalidArgument || end != ncclInvalidArgument)
      return out_of_step("a root out of range gave " + text_of(refused) + ", the group's end " +
                         text_of(end));
    MUST_SUCCEED(
        AllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, own.comm, own.stream));
    return wrong(differs("sum", data.get(), std::vector<float>(5, static_cast<float>(own.ranks))));
  });
}

INSTANTIATE_FOR_EVERY_WORLD(PointToPoint);
INSTANTIATE_FOR_EVERY_WORLD(Groups);

}  // namespace
}  // namespace sabot::conformance
