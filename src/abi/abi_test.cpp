// The tables that follow from the API spec: names, kinds, codes, and layers that wrap every slot.
#include <gtest/gtest.h>

#include "abi/around.hpp"
#include "abi/names.hpp"
#include "abi/result_code.hpp"
#include "base/datatype.hpp"

namespace sabot::abi {
namespace {

static_assert(static_cast<int>(DataType::kFloat8e5m2) == ncclFloat8e5m2);
static_assert(static_cast<int>(DataType::kBfloat16) == ncclBfloat16);
static_assert(static_cast<int>(ReduceOp::kAvg) == ncclAvg);
static_assert(kDataTypeCount == ncclNumTypes);

TEST(Names, FunctionsAreFoundWithAndWithoutPrefix) {
  EXPECT_EQ(find_function("AllReduce"), FunctionId::kAllReduce);
  EXPECT_EQ(find_function("ncclAllReduce"), FunctionId::kAllReduce);
  EXPECT_EQ(find_function("AllReduse"), std::nullopt);
  EXPECT_EQ(info(FunctionId::kCommResume).since, "2.29.7");
  EXPECT_EQ(info(FunctionId::kAllReduce).kind, Kind::collective);
  EXPECT_TRUE(info(FunctionId::kBroadcast).has_root);
  EXPECT_EQ(function_names().size(), static_cast<std::size_t>(kFunctionCount));
}

TEST(Names, ResultsTypesAndReductionsHaveOneSpellingInMessages) {
  EXPECT_EQ(result_name(2), "ncclSystemError");
  EXPECT_EQ(find_result("SystemError"), 2);
  EXPECT_EQ(find_result("ncclTimeout"), 8);
  EXPECT_EQ(datatype_name(7), "float32");
  EXPECT_EQ(find_datatype("half"), 6);
  EXPECT_EQ(find_datatype("ncclFloat8e4m3"), 10);
  EXPECT_EQ(datatype_bytes(9), 2u);
  EXPECT_EQ(redop_name(4), "avg");
  EXPECT_EQ(redop_name(17), "user");
  EXPECT_STREQ(version_text(22809).text, "2.28.9");
}

TEST(ResultCode, AbortedWorkIsAnInternalErrorAsInNccl) {
  EXPECT_EQ(to_result(Code::kAborted), ncclInternalError);
  EXPECT_EQ(to_result(Code::kRemote), ncclRemoteError);
}

struct CountingLayer {
  Api next;
  int calls = 0;
  std::string shown;
  struct Out {
    std::string& text;
    void field(const char* name, int value) {
      text += std::string(name) + "=" + std::to_string(value) + " ";
    }
    void field(const char* name, const void*) { text += std::string(name) + " "; }
    template <typename T>
    std::enable_if_t<!std::is_pointer_v<T>> field(const char* name, T value) {
      field(name, static_cast<int>(value));
    }
  };
  template <typename R, typename Next, typename Show, typename Edit>
  R around(Call&, Next&& next_call, Show&& show, Edit&&) {
    ++calls;
    Out out{shown};
    show(out);
    return next_call();
  }
};

TEST(Around, WrapsEverySlotAndShowsTheArgumentsThatACallDoesNotCarry) {
  ApiTable bottom{};
  bottom.CommSplit = [](void*, Call*, ncclComm_t, int color, int, ncclComm_t*, ncclConfig_t*) {
    return color == 7 ? ncclSuccess : ncclInternalError;
  };
  CountingLayer layer;
  layer.next = {&bottom, nullptr};
  Call call;
  EXPECT_EQ(Around<CountingLayer>::kTable.CommSplit(&layer, &call, nullptr, 7, 1, nullptr, nullptr),
            ncclSuccess);
  EXPECT_EQ(layer.calls, 1);
  EXPECT_EQ(layer.shown, "color=7 key=1 config ");
}

// Passes on half the elements, as bytes, to the buffer behind, from the next root.
struct ReplacingLayer {
  Api next;
  struct Replace {
    void role(Role, std::size_t& count) { count /= 2; }
    void role(Role, ncclDataType_t& datatype) { datatype = ncclInt8; }
    void role(Role, ncclRedOp_t& redop) { redop = ncclMax; }
    void role(Role role, int& rank) { rank += role == Role::kRoot ? 1 : 0; }
    void role(Role, const void*& send) { send = static_cast<const char*>(send) + 1; }
    void role(Role, void*& recv) { recv = static_cast<char*>(recv) + 2; }
  };
  template <typename R, typename Next, typename Show, typename Edit>
  R around(Call&, Next&& next_call, Show&&, Edit&& edit) {
    edit(Replace{});
    return next_call();
  }
};

struct Passed {
  const void* send;
  void* recv;
  std::size_t count;
  ncclDataType_t datatype;
  ncclRedOp_t redop;
  int root;
};

TEST(Around, ForwardsTheArgumentsThatALayerPutInTheirPlace) {
  ApiTable bottom{};
  bottom.Reduce = [](void* self, Call*, const void* send, void* recv, std::size_t count,
                     ncclDataType_t datatype, ncclRedOp_t redop, int root, ncclComm_t,
                     cudaStream_t) {
    *static_cast<Passed*>(self) = {send, recv, count, datatype, redop, root};
    return ncclSuccess;
  };
  bottom.Bcast = [](void* self, Call*, void* buffer, std::size_t count, ncclDataType_t datatype,
                    int root, ncclComm_t, cudaStream_t) {
    *static_cast<Passed*>(self) = {buffer, buffer, count, datatype, ncclSum, root};
    return ncclSuccess;
  };
  Passed passed{};
  ReplacingLayer layer{{&bottom, &passed}};
  Call call;
  char bytes[16] = {};
  const auto& table = Around<ReplacingLayer>::kTable;
  EXPECT_EQ(table.Reduce(&layer, &call, bytes, bytes, 8, ncclFloat32, ncclSum, 2, nullptr, nullptr),
            ncclSuccess);
  EXPECT_EQ(passed.send, bytes + 1);
  EXPECT_EQ(passed.recv, bytes + 2);
  EXPECT_EQ(passed.count, 4u);
  EXPECT_EQ(passed.datatype, ncclInt8);
  EXPECT_EQ(passed.redop, ncclMax);
  EXPECT_EQ(passed.root, 3);
  EXPECT_EQ(table.Bcast(&layer, &call, bytes, 8, ncclFloat32, 0, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(passed.send, bytes + 2);
  EXPECT_EQ(passed.root, 1);
}

}  // namespace
}  // namespace sabot::abi
