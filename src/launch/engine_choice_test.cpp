// Which engine a run takes, where its libnccl is expected, and what is said when there is none.
#include "launch/engine_choice.hpp"

#include <gtest/gtest.h>

#include "launch/fake_machine.hpp"

namespace sabot::launch {
namespace {

using config::EngineChoice;

constexpr const char* kWheel = "/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";

FakeMachine machine_with_torch() {
  FakeMachine machine;
  machine.programs = {{"python3", "/venv/bin/python3"},
                      {"torchrun", "/venv/bin/torchrun"},
                      {"bash", "/bin/bash"},
                      {"mpirun", "/usr/bin/mpirun"}};
  machine.interpreters = {{"/venv/bin/torchrun", "/venv/bin/python3"}};
  machine.python_paths = {{"/venv/bin/python3", {"/venv/lib/python3.11/site-packages"}}};
  machine.files = {kWheel};
  return machine;
}

NcclFinding search(FakeMachine& machine, const NcclRequest& request) {
  Result<NcclFinding> finding = search_nccl(machine, request);
  EXPECT_TRUE(finding.ok());
  return std::move(finding).value();
}

TEST(NcclSearch, AWheelIsFoundThroughTheInterpreterThatRunsTheCommand) {
  FakeMachine machine = machine_with_torch();
  const NcclFinding finding = search(machine, {.words = {"python3", "train.py"}});
  EXPECT_EQ(finding.path, kWheel);
  EXPECT_EQ(finding.how, "in the Python packages of '/venv/bin/python3'");
}

TEST(NcclSearch, AScriptLeadsToItsInterpreter) {
  FakeMachine machine = machine_with_torch();
  EXPECT_EQ(search(machine, {.words = {"torchrun", "--nproc-per-node", "2", "t.py"}}).path, kWheel);
}

TEST(NcclSearch, ALauncherLeadsToTheProgramBehindIt) {
  FakeMachine machine = machine_with_torch();
  EXPECT_EQ(search(machine, {.words = {"mpirun", "-n", "2", "python3", "t.py"}}).path, kWheel);
}

TEST(NcclSearch, AShellLineFallsBackToThePythonOfThePath) {
  FakeMachine machine = machine_with_torch();
  EXPECT_EQ(search(machine, {.words = {"bash", "-c", "python3 t.py"}}).path, kWheel);
}

TEST(NcclSearch, AnInterpreterIsAskedOnceEvenIfItHasNoNccl) {
  FakeMachine machine = machine_with_torch();
  machine.files.clear();
  EXPECT_EQ(search(machine, {.words = {"python3", "t.py"}}).path, "");
  EXPECT_EQ(machine.pythons_asked, std::vector<std::string>{"/venv/bin/python3"});
}

TEST(NcclSearch, ALinkedProgramIsFollowedInTheOrderOfTheLoader) {
  FakeMachine machine;
  machine.programs = {{"./train", "./train"}};
  machine.files = {"./lib/libnccl.so.2", "/alt/libnccl.so.2", "/cache/libnccl.so.2"};
  machine.cache = {{"libnccl.so.2", {"/cache/libnccl.so.2"}}};
  NcclRequest request{.words = {"./train"}, .library_path = "/alt"};

  machine.links["./train"] = {.needed = {"libc.so.6", "libnccl.so.2"}, .rpath = "$ORIGIN/lib"};
  EXPECT_EQ(search(machine, request).path, "./lib/libnccl.so.2") << "RPATH comes first";
  machine.links["./train"] = {.needed = {"libnccl.so.2"}, .runpath = "$ORIGIN/lib"};
  EXPECT_EQ(search(machine, request).path, "/alt/libnccl.so.2") << "RUNPATH comes second";
  request.library_path = "";
  EXPECT_EQ(search(machine, request).path, "./lib/libnccl.so.2");
  machine.links["./train"] = {.needed = {"libnccl.so.2"}};
  EXPECT_EQ(search(machine, request).path, "/cache/libnccl.so.2");
  EXPECT_EQ(search(machine, request).how, "linked by './train'");
}

TEST(NcclSearch, CondaThenNcclRootThenTheLibraryPathThenTheCache) {
  FakeMachine machine;
  machine.files = {"/conda/lib/libnccl.so.2", "/root-of-nccl/lib/libnccl.so", "/a/libnccl.so.2",
                   "/cache/libnccl.so.2"};
  machine.cache = {{"libnccl.so.2", {"/cache/libnccl.so.2"}}};
  NcclRequest request{.conda_prefix = "/conda", .nccl_root = "/root-of-nccl", .library_path = "/a"};
  EXPECT_EQ(search(machine, request).path, "/conda/lib/libnccl.so.2");
  request.conda_prefix = "";
  EXPECT_EQ(search(machine, request).path, "/root-of-nccl/lib/libnccl.so");
  request.nccl_root = "";
  EXPECT_EQ(search(machine, request).path, "/a/libnccl.so.2");
  request.library_path = "";
  EXPECT_EQ(search(machine, request).path, "/cache/libnccl.so.2");
}

TEST(NcclSearch, EveryPlaceWithoutOneIsNamed) {
  FakeMachine machine = machine_with_torch();
  machine.files.clear();
  const NcclFinding finding =
      search(machine, {.words = {"python3"}, .conda_prefix = "/conda", .library_path = "/a:/b"});
  EXPECT_EQ(searched_text(finding),
            "searched: the Python packages of '/venv/bin/python3', /conda/lib (CONDA_PREFIX), "
            "/a (LD_LIBRARY_PATH), /b (LD_LIBRARY_PATH), the loader's cache");
}

TEST(NcclSearch, AFileNamedByThePersonIsThatFileOrAnError) {
  FakeMachine machine = machine_with_torch();
  machine.files.insert("/mine.so");
  EXPECT_EQ(search(machine, {.words = {"python3"}, .real_nccl = "/mine.so"}).path, "/mine.so");
  const Result<NcclFinding> missing = search_nccl(machine, {.real_nccl = "/gone.so"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message(),
            "SABOT_REAL_NCCL names '/gone.so', and there is no such file");
}

TEST(NcclSearch, C2ATorchWithNcclInsideIsNoticed) {
  FakeMachine machine = machine_with_torch();
  const std::string torch = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so";
  machine.files = {torch};
  machine.unreachable = {{torch, "NCCL is linked statically into it"}};
  const NcclFinding finding = search(machine, {.words = {"python3"}});
  EXPECT_EQ(finding.path, "");
  EXPECT_EQ(finding.unreachable, "NCCL is linked statically into it");
}

EngineChosen chosen(EngineFacts facts) {
  Result<EngineChosen> engine = choose_engine(facts);
  EXPECT_TRUE(engine.ok());
  return std::move(engine).value();
}

NcclFinding found() { return {.path = "/w/libnccl.so.2", .how = "in the loader's cache"}; }

TEST(EngineChoice, AutoWithoutADriverIsHostAndSaysWhatTheLoaderSaid) {
  EngineFacts facts;
  facts.devices = Result<int>(Error(Code::kNotFound, "no CUDA driver (libcuda.so.1: not found)"));
  const EngineChosen engine = chosen(std::move(facts));
  EXPECT_FALSE(engine.is_real);
  EXPECT_EQ(engine.reason, "no CUDA driver: libcuda.so.1: not found");
  EXPECT_STREQ(engine.way(), "stand-in");
}

TEST(EngineChoice, AutoWithDeviceAndLibraryIsReal) {
  EngineFacts facts;
  facts.devices = Result<int>(2);
  facts.nccl = found();
  const EngineChosen engine = chosen(std::move(facts));
  EXPECT_TRUE(engine.is_real);
  EXPECT_EQ(engine.reason, "2 CUDA devices; /w/libnccl.so.2 in the loader's cache");
  EXPECT_STREQ(engine.way(), "preload");
}

TEST(EngineChoice, AutoWithADeviceButNoLibraryIsHostAndNamesThePlaces) {
  EngineFacts facts;
  facts.devices = Result<int>(1);
  facts.nccl = NcclFinding{.searched = {"the loader's cache"}};
  const EngineChosen engine = chosen(std::move(facts));
  EXPECT_FALSE(engine.is_real);
  EXPECT_EQ(engine.reason, "1 CUDA device, but no libnccl was found; searched: the loader's cache");
}

TEST(EngineChoice, WhatIsAskedForIsTakenAndDoubtIsSaid) {
  EngineFacts host{.asked = EngineChoice::kHost, .asked_by = "--engine"};
  EXPECT_EQ(chosen(std::move(host)).reason, "asked for by --engine");
  EngineFacts real{.asked = EngineChoice::kReal, .asked_by = "SABOT_ENGINE"};
  real.nccl = NcclFinding{.searched = {"the loader's cache"}};
  const EngineChosen engine = chosen(std::move(real));
  EXPECT_TRUE(engine.is_real);
  EXPECT_EQ(engine.reason,
            "asked for by SABOT_ENGINE; no libnccl was found, the program has to bring its own; "
            "searched: the loader's cache");
}

TEST(EngineChoice, C2RealOverAnUnreachableNcclIsRefused) {
  for (const EngineChoice asked : {EngineChoice::kAuto, EngineChoice::kReal}) {
    EngineFacts facts{.asked = asked, .asked_by = "--engine"};
    facts.devices = Result<int>(1);
    facts.nccl = NcclFinding{.unreachable = "NCCL is linked statically into torch"};
    const Result<EngineChosen> engine = choose_engine(facts);
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().code(), Code::kUnsupported);
    EXPECT_EQ(engine.error().message(), "NCCL is linked statically into torch");
  }
}

}  // namespace
}  // namespace sabot::launch
