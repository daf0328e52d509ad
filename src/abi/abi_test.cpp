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
  template <typename R, typename Next, typename Show>
  R around(Call&, Next&& next_call, Show&& show) {
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

}  // namespace
}  // namespace sabot::abi
