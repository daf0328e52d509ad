// Queries, memory, settings, and what the host engine says of functions it does not have.
#include <cstring>

#include "comm/host_fixture.hpp"

namespace sabot::comm {
namespace {

TEST(Table, HasNoEmptySlot) {
  const abi::Api api = host_api({});
  const auto* slots = reinterpret_cast<void* const*>(api.table);
  for (std::size_t i = 0; i < sizeof(abi::ApiTable) / sizeof(void*); ++i) {
    EXPECT_NE(slots[i], nullptr) << "slot " << i;
  }
}

TEST(Version, IsTheSpecs) {
  const Host host;
  int version = 0;
  EXPECT_EQ(host.GetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  EXPECT_EQ(host.say(host.GetVersion(nullptr)), "4 ncclGetVersion: version is NULL");
}

TEST(ErrorString, HasNcclsWords) {
  const Host host;
  const auto text = [&](int code) {
    return std::string(host.GetErrorString(static_cast<ncclResult_t>(code)));
  };
  EXPECT_EQ(text(0), "no error");
  EXPECT_EQ(text(1), "unhandled cuda error (run with NCCL_DEBUG=INFO for details)");
  EXPECT_EQ(text(2), "unhandled system error (run with NCCL_DEBUG=INFO for details)");
  EXPECT_EQ(text(3), "internal error - please report this issue to the NCCL developers");
  EXPECT_EQ(text(4), "invalid argument (run with NCCL_DEBUG=WARN for details)");
  EXPECT_EQ(text(5), "invalid usage (run with NCCL_DEBUG=WARN for details)");
  EXPECT_EQ(text(6), "remote process exited or there was a network error");
  EXPECT_EQ(text(7), "NCCL operation in progress");
  EXPECT_EQ(text(8), "timeout");
  EXPECT_EQ(text(9), "unknown result code");
}

TEST(Queries, AnswerOrSayWhatIsNull) {
  const Host host;
  const Clique clique(host, 2);
  int value = -1;
  EXPECT_EQ(host.CommCount(clique[1], &value), ncclSuccess);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(host.CommUserRank(clique[1], &value), ncclSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(host.say(host.CommCount(clique[1], nullptr)), "4 ncclCommCount: count is NULL");
  EXPECT_EQ(host.say(host.CommUserRank(clique[1], nullptr)), "4 ncclCommUserRank: rank is NULL");
  EXPECT_EQ(host.say(host.CommCuDevice(clique[1], nullptr)), "4 ncclCommCuDevice: device is NULL");
  EXPECT_EQ(host.say(host.CommCount(nullptr, &value)),
            "4 ncclCommCount: comm is NULL; pass a communicator");
  EXPECT_EQ(host.say(host.CommGetAsyncError(clique[0], nullptr)),
            "4 ncclCommGetAsyncError: asyncError is NULL");
}

TEST(Teams, AreTheRankAloneForLoadsAndStores) {
  const Host host;
  const Clique clique(host, 3);
  const ncclTeam_t world = host.TeamWorld(clique[2]);
  EXPECT_EQ((std::vector<int>{world.nRanks, world.rank, world.stride}),
            (std::vector<int>{3, 2, 1}));
  const ncclTeam_t lsa = host.TeamLsa(clique[2]);
  EXPECT_EQ((std::vector<int>{lsa.nRanks, lsa.rank, lsa.stride}), (std::vector<int>{1, 0, 1}));
  const ncclTeam_t rail = host.TeamRail(clique[2]);
  EXPECT_EQ((std::vector<int>{rail.nRanks, rail.rank, rail.stride}), (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(host.TeamRankToWorld(clique[2], rail, 0), 0);
  EXPECT_EQ(host.TeamRankToWorld(clique[2], lsa, 0), 2);
  EXPECT_EQ(host.TeamRankToLsa(clique[2], world, 2), 0);
  EXPECT_EQ(host.TeamWorld(nullptr).nRanks, 0);
  EXPECT_EQ(host.text(), "ncclTeamWorld: comm is NULL; pass a communicator");
}

TEST(Properties, AreFilledAsFarAsTheCallersStructReaches) {
  const Host host;
  const Clique clique(host, 2);
  struct {
    std::size_t size = 56;
    unsigned magic = NCCL_API_MAGIC;
    unsigned version = NCCL_VERSION_CODE;
    int rank = -5, ranks = -5, cuda = -5, nvml = -5;
    bool device = true, multimem = true;
    int gin = -5, lsa = -5;
    bool rma = true;
    int railed = -5;
  } properties;
  static_assert(sizeof properties == 56);
  auto* raw = reinterpret_cast<ncclCommProperties_t*>(&properties);
  EXPECT_EQ(host.say(host.CommQueryProperties(clique[1], raw)), "ok");
  EXPECT_EQ(properties.rank, 1);
  EXPECT_EQ(properties.ranks, 2);
  EXPECT_EQ(properties.lsa, 2);
  EXPECT_FALSE(properties.device);
  EXPECT_FALSE(properties.rma);
  properties.size = 24;  // rank and ranks alone
  properties.cuda = -5;
  EXPECT_EQ(host.say(host.CommQueryProperties(clique[0], raw)), "ok");
  EXPECT_EQ(properties.rank, 0);
  EXPECT_EQ(properties.cuda, -5);
  properties.magic = 0;
  EXPECT_EQ(host.say(host.CommQueryProperties(clique[1], raw)),
            "4 ncclCommQueryProperties: props was not initialised; start it with "
            "NCCL_COMM_PROPERTIES_INITIALIZER");
}

TEST(Memory, IsAlignedZeroedAndFreedOnce) {
  const Host host;
  void* memory = nullptr;
  ASSERT_EQ(host.say(host.MemAlloc(&memory, 10'000)), "ok");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
  std::memset(memory, 1, 10'000);
  EXPECT_EQ(host.say(host.MemFree(memory)), "ok");
  const std::string text =
      "4 ncclMemFree: ptr was not returned by ncclMemAlloc of this process, or is free already";
  EXPECT_EQ(host.say(host.MemFree(memory)), text);
  int local = 0;
  EXPECT_EQ(host.say(host.MemFree(&local)), text);
  EXPECT_EQ(host.say(host.MemFree(nullptr)), "ok");
  EXPECT_EQ(host.say(host.MemAlloc(nullptr, 1)), "4 ncclMemAlloc: ptr is NULL");
  EXPECT_EQ(host.say(host.MemAlloc(&memory, static_cast<std::size_t>(-1))),
            "2 ncclMemAlloc: no memory for 18446744073709551615 bytes");
}

TEST(Registration, IsRememberedAndGivenBackOnce) {
  const Host host;
  const Clique clique(host, 1);
  int buffer = 0;
  void* handle = nullptr;
  ASSERT_EQ(host.say(host.CommRegister(clique[0], &buffer, 4, &handle)), "ok");
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(host.say(host.CommDeregister(clique[0], handle)), "ok");
  EXPECT_EQ(
      host.say(host.CommDeregister(clique[0], handle)),
      "4 ncclCommDeregister: handle was not returned by ncclCommRegister of this communicator, "
      "or is deregistered already");
  EXPECT_EQ(host.say(host.CommRegister(clique[0], nullptr, 4, &handle)),
            "4 ncclCommRegister: buff is NULL");
  EXPECT_EQ(host.say(host.CommRegister(clique[0], &buffer, 0, &handle)),
            "4 ncclCommRegister: size is 0, must be at least 1");
  EXPECT_EQ(host.say(host.CommRegister(clique[0], &buffer, 4, nullptr)),
            "4 ncclCommRegister: handle is NULL");
}

TEST(Window, GivesTheUsersPointerBack) {
  const Host host;
  const Clique clique(host, 1);
  void* memory = nullptr;
  host.MemAlloc(&memory, 8192);
  ncclWindow_t window = nullptr;
  ASSERT_EQ(
      host.say(host.CommWindowRegister(clique[0], memory, 8192, &window, NCCL_WIN_COLL_SYMMETRIC)),
      "ok");
  void* user = nullptr;
  EXPECT_EQ(host.say(host.WinGetUserPtr(clique[0], window, &user)), "ok");
  EXPECT_EQ(user, memory);
  EXPECT_EQ(host.say(host.CommWindowDeregister(clique[0], window)), "ok");
  const std::string gone =
      "win was not returned by ncclCommWindowRegister of this communicator, or is deregistered "
      "already";
  EXPECT_EQ(host.say(host.WinGetUserPtr(clique[0], window, &user)), "4 ncclWinGetUserPtr: " + gone);
  EXPECT_EQ(host.say(host.CommWindowDeregister(clique[0], window)),
            "4 ncclCommWindowDeregister: " + gone);
  EXPECT_EQ(
      host.say(host.CommWindowRegister(clique[0], static_cast<char*>(memory) + 8, 8, &window, 0)),
      "4 ncclCommWindowRegister: buff is not aligned to 4096 bytes; allocate it with "
      "ncclMemAlloc");
  EXPECT_EQ(host.say(host.CommWindowRegister(clique[0], memory, 8, &window, 8)),
            "4 ncclCommWindowRegister: winFlags is 8, must be a combination of "
            "NCCL_WIN_COLL_SYMMETRIC (1) and NCCL_WIN_STRICT_ORDERING (2)");
  host.MemFree(memory);
}

TEST(Suspend, RefusesOperationsUntilResume) {
  const Host host;
  const Clique clique(host, 1);
  EXPECT_EQ(host.say(host.CommSuspend(clique[0], 0)),
            "4 ncclCommSuspend: flags is 0, must be NCCL_SUSPEND_MEM (1)");
  EXPECT_EQ(host.say(host.CommResume(clique[0])),
            "5 ncclCommResume: the communicator is not suspended");
  EXPECT_EQ(host.say(host.CommSuspend(clique[0], NCCL_SUSPEND_MEM)), "ok");
  std::uint64_t value = 9;
  EXPECT_EQ(host.CommMemStats(clique[0], ncclStatGpuMemSuspended, &value), ncclSuccess);
  EXPECT_EQ(value, 1u);
  int data = 1;
  EXPECT_EQ(host.say(host.AllReduce(&data, &data, 1, ncclInt32, ncclSum, clique[0], nullptr)),
            "5 ncclAllReduce: the communicator is suspended; call ncclCommResume before using it");
  EXPECT_EQ(host.say(host.CommResume(clique[0])), "ok");
  EXPECT_EQ(host.say(host.AllReduce(&data, &data, 1, ncclInt32, ncclSum, clique[0], nullptr)),
            "ok");
  EXPECT_EQ(host.CommMemStats(clique[0], ncclStatGpuMemTotal, &value), ncclSuccess);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(host.say(host.CommMemStats(clique[0], ncclStatGpuMemTotal, nullptr)),
            "4 ncclCommMemStats: value is NULL");
}

TEST(Parameters, AreTheEnginesOwn) {
  Options options;
  options.timeout_ns = 5'000'000'000;
  options.interface = "eth0";
  const Host host(options);
  ncclParamHandle_t handle = nullptr;
  ASSERT_EQ(host.say(host.ParamBind(&handle, "SABOT_TIMEOUT")), "ok");
  std::int64_t number = 0;
  EXPECT_EQ(host.say(host.ParamGetI64(handle, &number)), "ok");
  EXPECT_EQ(number, 5'000'000'000);
  std::int8_t small = 0;
  EXPECT_EQ(host.say(host.ParamGetI8(handle, &small)),
            "4 ncclParamGetI8: SABOT_TIMEOUT is '5000000000', which is no number from -128 to 127");
  const char* text = nullptr;
  EXPECT_EQ(host.ParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "5000000000");
  char bytes[16];
  int length = 0;
  EXPECT_EQ(host.ParamGet(handle, bytes, sizeof bytes, &length), ncclSuccess);
  EXPECT_EQ(length, 11);
  EXPECT_STREQ(bytes, "5000000000");
  EXPECT_EQ(host.say(host.ParamGet(handle, bytes, 3, &length)),
            "4 ncclParamGet: maxLen is 3, the value of SABOT_TIMEOUT takes 11 bytes");
  EXPECT_EQ(host.ParamGetParameter("SABOT_SOCKET_IFNAME", &text, &length), ncclSuccess);
  EXPECT_STREQ(text, "eth0");
  EXPECT_EQ(
      host.say(host.ParamBind(&handle, "SABOT_TIMEOUTT")),
      "4 ncclParamBind: there is no parameter 'SABOT_TIMEOUTT'; did you mean 'SABOT_TIMEOUT'? "
      "The host engine has its own parameters, not NCCL's");
  EXPECT_EQ(host.say(host.ParamGetI64(reinterpret_cast<ncclParamHandle_t>(&number), &number)),
            "4 ncclParamGetI64: h is not a handle that ncclParamBind returned");
  const char** keys = nullptr;
  int count = 0;
  EXPECT_EQ(host.ParamGetAllParameterKeys(&keys, &count), ncclSuccess);
  ASSERT_EQ(count, 2);
  EXPECT_STREQ(keys[0], "SABOT_TIMEOUT");
}

TEST(Absent, FunctionsSayTheirNameAndWhatToUseInstead) {
  const Host host;
  const std::string device =
      " is not implemented by the host engine; NCCL's device API needs kernels on a GPU: run with "
      "the engine 'real'";
  EXPECT_EQ(
      host.say(host.PutSignal(nullptr, 0, ncclInt8, 0, nullptr, 0, 0, 0, 0, nullptr, nullptr)),
      "5 ncclPutSignal is not implemented by the host engine; use ncclSend and ncclRecv");
  EXPECT_EQ(host.say(host.Signal(0, 0, 0, 0, nullptr, nullptr)),
            "5 ncclSignal is not implemented by the host engine; use ncclSend and ncclRecv");
  EXPECT_EQ(host.say(host.WaitSignal(0, nullptr, nullptr, nullptr)),
            "5 ncclWaitSignal is not implemented by the host engine; use ncclSend and ncclRecv");
  EXPECT_EQ(host.say(host.DevCommCreate(nullptr, nullptr, nullptr)),
            "5 ncclDevCommCreate" + device);
  EXPECT_EQ(host.say(host.DevCommDestroy(nullptr, nullptr)), "5 ncclDevCommDestroy" + device);
  EXPECT_EQ(host.say(host.GetLsaDevicePointer(nullptr, 0, 0, nullptr)),
            "5 ncclGetLsaDevicePointer" + device);
  EXPECT_EQ(host.say(host.GetPeerDevicePointer(nullptr, 0, 0, nullptr)),
            "5 ncclGetPeerDevicePointer" + device);
  EXPECT_EQ(host.LLA2ACalcSlots(1, 1), 0);
  EXPECT_EQ(host.text(), "ncclLLA2ACalcSlots" + device);
}

}  // namespace
}  // namespace sabot::comm
