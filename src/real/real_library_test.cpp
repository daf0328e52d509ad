// The search for the vendor's library and the routing of callers, on a fake loader.
#include "real/real_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "real/fake_loader.hpp"

namespace sabot::real {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <int kCode>
int version_of(int* version) {
  *version = kCode;
  return 0;
}
void some_function() {}

template <typename F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

// A whole libnccl of this version.
template <int kCode>
FakeFile nccl(std::uint64_t inode, const std::string& build_id = "") {
  FakeFile file;
  file.soname = "libnccl.so.2";
  for (const char* name : {"CommInitRank", "AllReduce", "GroupStart"}) {
    file.symbols["nccl" + std::string(name)] = address(&some_function);
    file.symbols["pnccl" + std::string(name)] = address(&some_function);
  }
  file.symbols["ncclGetVersion"] = address(&version_of<kCode>);
  file.symbols["pncclGetVersion"] = address(&version_of<kCode>);
  file.id = {1, inode};
  file.build_id = build_id;
  return file;
}

FakeFile object(const std::string& soname, std::vector<std::string> needed = {}) {
  FakeFile file;
  file.soname = soname;
  file.needed = std::move(needed);
  return file;
}

FakeFile sabot_object(const std::string& soname) {
  FakeFile file = nccl<23007>(900);
  file.soname = soname;
  file.symbols["sabot_stack_v1"] = address(&some_function);
  return file;
}

constexpr char kSabot[] = "/opt/sabot/lib/libsabot.so";

// A program with Sabot preloaded and nothing else.
class RealLibraryTest : public ::testing::Test {
 protected:
  RealLibraryTest() {
    loader.files["/bin/train"] = object("", {"libc.so.6"});
    loader.files[kSabot] = sabot_object("libsabot.so");
    loader.files["/lib/libc.so.6"] = object("libc.so.6");
    loader.ours = kSabot;
    loader.map("/bin/train");
    loader.map(kSabot);
    loader.map("/lib/libc.so.6");
  }

  std::unique_ptr<RealLibrary> open_or_fail(const SearchSettings& settings = {}) {
    auto opened = open(loader, settings);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }

  FakeLoader loader;
};

TEST_F(RealLibraryTest, AMappedLibraryIsTakenAndPinnedWithoutLoadingAnything) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7, "c0ffee");
  loader.map("/wheel/libnccl.so.2");
  const auto real = open_or_fail();
  EXPECT_EQ(real->text(), "NCCL 2.28.9 from /wheel/libnccl.so.2 (already mapped)");
  EXPECT_EQ(real->chosen().text(), "/wheel/libnccl.so.2 (NCCL 2.28.9, build id c0ffee)");
  EXPECT_NE(real->chosen().handle(), nullptr);
  EXPECT_THAT(loader.opened, ElementsAre("/wheel/libnccl.so.2"));
  EXPECT_EQ(real->several_copies_text(), std::nullopt);
}

TEST_F(RealLibraryTest, TheNamedFileWinsOverAMappedOne) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.files["/mine/libnccl.so.2"] = nccl<23007>(8);
  loader.files["/mine/libnccl.so.2"].soname = "";
  loader.map("/wheel/libnccl.so.2");
  const auto real = open_or_fail({.real_nccl = "/mine/libnccl.so.2"});
  EXPECT_EQ(real->text(), "NCCL 2.30.7 from /mine/libnccl.so.2 (SABOT_REAL_NCCL)");
  EXPECT_EQ(real->copy_for(loader.inside("/bin/train"))->path(), "/mine/libnccl.so.2");
}

TEST_F(RealLibraryTest, ANamedFileThatCannotBeUsedIsAnErrorAndNothingElseIsTried) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.files["/etc/motd"].is_library = false;
  loader.files["/lib/libz.so"] = object("libz.so");
  const auto message = [&](const std::string& path) {
    const auto opened = open(loader, {.real_nccl = path});
    return opened.ok() ? std::string("opened") : opened.error().message();
  };
  EXPECT_EQ(
      message("/gone/libnccl.so.2"),
      "SABOT_REAL_NCCL names '/gone/libnccl.so.2', which cannot be used: No such file or "
      "directory; name the vendor's libnccl.so.2 by its absolute path, or unset it to search");
  EXPECT_THAT(message("libnccl.so.2"), HasSubstr("cannot be used: it is not an absolute path"));
  EXPECT_THAT(message("/etc/motd"), HasSubstr("cannot be used: it is not an ELF file"));
  EXPECT_THAT(message("/lib/libz.so"), HasSubstr("it is not NCCL: it has no ncclGetVersion"));
  EXPECT_THAT(message(kSabot), HasSubstr("cannot be used: it is Sabot itself"));
  EXPECT_TRUE(loader.opened.empty());
}

TEST_F(RealLibraryTest, TheWheelFolderBesideATorchIsFoundBeforeTheEnvironment) {
  loader.files["/site/torch/lib/libtorch_cuda.so"] = object("libtorch_cuda.so");
  loader.map("/site/torch/lib/libtorch_cuda.so");
  loader.files["/site/torch/lib/../../nvidia/nccl/lib/libnccl.so.2"] = nccl<22809>(7);
  loader.files["/conda/lib/libnccl.so.2"] = nccl<22105>(8);
  const auto real = open_or_fail({.conda_prefix = "/conda"});
  EXPECT_EQ(real->text(),
            "NCCL 2.28.9 from /site/torch/lib/../../nvidia/nccl/lib/libnccl.so.2 "
            "(next to libtorch_cuda.so)");
}

TEST_F(RealLibraryTest, AFailedSearchNamesEveryPlaceWithItsReason) {
  loader.files["/torch/lib/libtorch_cuda.so"] = object("libtorch_cuda.so");
  loader.map("/torch/lib/libtorch_cuda.so");
  loader.files["/conda/lib/libnccl.so.2"].is_library = false;
  loader.files["/nccl/lib/libnccl.so.2"] = nccl<22809>(7);
  loader.refused.insert("/nccl/lib/libnccl.so.2");
  loader.names["libnccl.so.2"] = kSabot;
  loader.cache = {"/usr/lib/libnccl.so.2"};
  const auto opened =
      open(loader, {.conda_prefix = "/conda", .nccl_root = "/nccl", .library_path = ":/a:/b"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Code::kNotFound);
  EXPECT_EQ(opened.error().message(),
            R"(no NCCL library was found; set SABOT_REAL_NCCL to the )"
            R"(absolute path of the vendor's libnccl.so.2, or use the host engine. Searched:
  SABOT_REAL_NCCL: not set
  already mapped: no libnccl.so is mapped
  next to libtorch_cuda.so: /torch/lib/../../nvidia/nccl/lib/libnccl.so.2: No such file or directory
  next to libtorch_cuda.so: /torch/lib/../../nvidia/cu13/lib/libnccl.so.2: No such file or directory
  next to libtorch_cuda.so: /torch/lib/libnccl.so.2: No such file or directory
  the run path of what is linked to it: no such object has one
  next in the loader's order: no other object offers ncclGetVersion
  CONDA_PREFIX: /conda/lib/libnccl.so.2: it is not an ELF file
  NCCL_ROOT: /nccl/lib/libnccl.so.2: undefined symbol: cuFoo
  the loader's search: libnccl.so.2: it is Sabot itself
  the loader's search: libnccl.so: cannot open shared object file
  LD_LIBRARY_PATH: /a/libnccl.so.2: No such file or directory
  LD_LIBRARY_PATH: /b/libnccl.so.2: No such file or directory
  the loader's cache: /usr/lib/libnccl.so.2: No such file or directory)");
}

TEST_F(RealLibraryTest, OurStandInIsSkippedAndTheCacheStillFindsTheVendors) {
  loader.files["/opt/sabot/lib/standin/libnccl.so.2"] = sabot_object("libnccl.so.2");
  loader.map("/opt/sabot/lib/standin/libnccl.so.2");
  loader.files["/usr/lib/libnccl.so.2"] = nccl<22304>(7);
  loader.cache = {"/usr/lib/libnccl.so.2"};
  const auto real = open_or_fail();
  EXPECT_EQ(real->text(), "NCCL 2.23.4 from /usr/lib/libnccl.so.2 (the loader's cache)");
  EXPECT_EQ(real->rejected()[1].reason, "it is Sabot itself");
  EXPECT_EQ(real->rejected()[1].path, "/opt/sabot/lib/standin/libnccl.so.2");
}

TEST_F(RealLibraryTest, BehindOurStandInTheRunPathOfTheProgramIsFollowed) {
  loader.files["/app/lib/frame.so"] = object("frame.so", {"libnccl.so.2"});
  loader.files["/app/lib/frame.so"].run_path = "/nowhere:$ORIGIN/../nccl";
  loader.files["/opt/sabot/lib/standin/libnccl.so.2"] = sabot_object("libnccl.so.2");
  loader.map("/opt/sabot/lib/standin/libnccl.so.2");
  loader.map("/app/lib/frame.so");
  loader.files["/app/lib/../nccl/libnccl.so.2"] = nccl<22304>(7);
  const auto real = open_or_fail();
  EXPECT_EQ(
      real->text(),
      "NCCL 2.23.4 from /app/lib/../nccl/libnccl.so.2 (the run path of what is linked to it)");
}

TEST_F(RealLibraryTest, AHardLinkToOurselvesIsRecognisedByItsInode) {
  loader.files["/conda/lib/libnccl.so.2"] = nccl<22809>(900);
  const auto opened = open(loader, {.conda_prefix = "/conda"});
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message(),
              HasSubstr("CONDA_PREFIX: /conda/lib/libnccl.so.2: it is Sabot itself"));
}

TEST_F(RealLibraryTest, StaticNcclInAProgramIsFoundThroughItsExportedTwins) {
  FakeFile framework = nccl<21805>(7);
  framework.soname = "libtorch_cuda.so";
  loader.files["/zip/libtorch_cuda.so"] = framework;
  loader.map("/zip/libtorch_cuda.so");
  const auto real = open_or_fail();
  EXPECT_EQ(real->text(), "NCCL 2.18.5 from /zip/libtorch_cuda.so (already mapped)");
  EXPECT_FALSE(real->chosen().is_dedicated());
  // Its callers live in the same object: an address cannot tell them from NCCL itself.
  EXPECT_EQ(real->route_for(loader.inside("/zip/libtorch_cuda.so")).caller, Caller::kApplication);
}

TEST_F(RealLibraryTest, NcclWithoutTwinsIsFoundAsTheNextDefinition) {
  FakeFile odd = nccl<22809>(7);
  odd.soname = "libvendor.so";
  for (const char* name :
       {"pncclCommInitRank", "pncclAllReduce", "pncclGroupStart", "pncclGetVersion"})
    odd.symbols.erase(name);
  loader.files["/odd/libvendor.so"] = odd;
  loader.map("/odd/libvendor.so");
  loader.next["ncclGetVersion"] = const_cast<void*>(loader.inside("/odd/libvendor.so"));
  const auto real = open_or_fail();
  EXPECT_EQ(real->text(), "NCCL 2.28.9 from /odd/libvendor.so (next in the loader's order)");
  EXPECT_EQ(real->chosen().symbol("AllReduce"), address(&some_function));
}

TEST_F(RealLibraryTest, AMissingFunctionIsNamedWithTheVersionItNeeds) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.map("/wheel/libnccl.so.2");
  const auto real = open_or_fail();
  EXPECT_EQ(real->chosen().symbol("CommResume"), nullptr);
  EXPECT_EQ(real->next("CommResume"), nullptr);
  EXPECT_EQ(real->chosen().missing_text("CommResume", 22907),
            "ncclCommResume needs NCCL 2.29.7 or newer; the library in use is 2.28.9 "
            "(/wheel/libnccl.so.2)");
  EXPECT_EQ(real->chosen().missing_text("CommSplit", 21801),
            "ncclCommSplit is missing from the library in use, NCCL 2.28.9 (/wheel/libnccl.so.2), "
            "although NCCL has it since 2.18.1");
}

// B7 and C5.
TEST_F(RealLibraryTest, NextIsAnotherToolsWrapperWhereTheLoaderLeadsToOne) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.files["/tool/libtool.so"] = object("libtool.so");
  loader.map("/tool/libtool.so");
  loader.map("/wheel/libnccl.so.2");
  void* wrapper = const_cast<void*>(loader.inside("/tool/libtool.so"));
  loader.next["ncclAllReduce"] = wrapper;
  loader.next["ncclGroupStart"] = const_cast<void*>(loader.inside("/wheel/libnccl.so.2"));
  const auto real = open_or_fail();
  EXPECT_EQ(real->next("AllReduce"), wrapper);
  EXPECT_EQ(real->next("GroupStart"), address(&some_function));
  EXPECT_THAT(loader.shown, ElementsAre("/wheel/libnccl.so.2"))
      << "or the tool finds no next itself";
  EXPECT_EQ(real->route_for(wrapper).caller, Caller::kWrapper);
  EXPECT_EQ(real->route_for(loader.inside("/bin/train")).caller, Caller::kApplication);
}

TEST_F(RealLibraryTest, AnotherCopyOfSabotIsNotAWrapper) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.files["/opt/sabot/lib/standin/libnccl.so.2"] = sabot_object("libnccl.so.2");
  loader.map("/opt/sabot/lib/standin/libnccl.so.2");
  loader.map("/wheel/libnccl.so.2");
  loader.next["ncclAllReduce"] =
      const_cast<void*>(loader.inside("/opt/sabot/lib/standin/libnccl.so.2"));
  const auto real = open_or_fail();
  EXPECT_EQ(real->next("AllReduce"), address(&some_function));
}

// B8.
TEST_F(RealLibraryTest, ACallFromInsideTheLibraryIsItsOwn) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.map("/wheel/libnccl.so.2");
  const auto real = open_or_fail();
  const Route route = real->route_for(loader.inside("/wheel/libnccl.so.2"));
  EXPECT_EQ(route.caller, Caller::kCopy);
  EXPECT_EQ(route.copy, &real->chosen());
  EXPECT_EQ(real->route_for(loader.inside("/lib/libc.so.6")).caller, Caller::kApplication);
  EXPECT_EQ(real->route_for(nullptr).copy, &real->chosen());
}

// C1: torch by its DT_NEEDED, a second framework by a path of its own.
class TwoCopiesTest : public RealLibraryTest {
 protected:
  TwoCopiesTest() {
    loader.files["/site/torch/_C.so"] = object("", {"libtorch_cuda.so"});
    loader.files["/site/torch/libtorch_cuda.so"] = object("libtorch_cuda.so", {"libnccl.so.2"});
    loader.files["/site/nvidia/libnccl.so.2"] = nccl<22809>(7, "aaaa");
    loader.map("/site/torch/_C.so");
    loader.map("/site/torch/libtorch_cuda.so");
    loader.map("/site/nvidia/libnccl.so.2");
    loader.files["/jax/plugin.so"] = object("plugin.so", {"libnccl.so.2.jax"});
    loader.files["/jax/libnccl.so.2"] = nccl<22105>(8, "bbbb");
    loader.files["/jax/libnccl.so.2"].soname = "libnccl.so.2.jax";
  }
};

TEST_F(TwoCopiesTest, EachCallerKeepsTheCopyItIsLinkedTo) {
  loader.map("/jax/plugin.so");
  loader.map("/jax/libnccl.so.2");
  const auto real = open_or_fail();
  EXPECT_EQ(real->copy_for(loader.inside("/site/torch/libtorch_cuda.so"))->version(), 22809);
  EXPECT_EQ(real->copy_for(loader.inside("/site/torch/_C.so"))->version(), 22809);
  EXPECT_EQ(real->copy_for(loader.inside("/jax/plugin.so"))->version(), 22105);
  EXPECT_EQ(real->copy_for(loader.inside("/bin/train")), &real->chosen());
  EXPECT_EQ(real->copies().size(), 2u);
}

TEST_F(TwoCopiesTest, ASecondLibraryIsNoticedLaterAndBothAreNamedOnce) {
  const auto real = open_or_fail();
  EXPECT_FALSE(real->maps_changed());
  loader.map("/jax/plugin.so");
  loader.map("/jax/libnccl.so.2");
  EXPECT_TRUE(real->maps_changed());
  EXPECT_EQ(
      real->refresh(),
      "2 copies of NCCL are in this process: /site/nvidia/libnccl.so.2 (NCCL 2.28.9, build id "
      "aaaa), /jax/libnccl.so.2 (NCCL 2.21.5, build id bbbb); each call goes to the copy that "
      "its caller would reach without Sabot");
  EXPECT_FALSE(real->maps_changed());
  EXPECT_EQ(real->refresh(), std::nullopt);
  EXPECT_EQ(real->copy_for(loader.inside("/jax/plugin.so"))->version(), 22105);
  EXPECT_EQ(real->copy_for(loader.inside("/site/torch/libtorch_cuda.so"))->version(), 22809);
}

TEST_F(TwoCopiesTest, ACallerIsLookedUpOnceAndForgottenWhenTheMapsChange) {
  loader.map("/jax/libnccl.so.2");
  loader.map("/jax/plugin.so");
  const auto real = open_or_fail();
  real->copy_for(loader.inside("/jax/plugin.so"));
  const std::size_t reads = loader.reads();
  for (int i = 0; i < 100; ++i) real->copy_for(loader.inside("/jax/plugin.so"));
  EXPECT_EQ(loader.reads(), reads);
  real->refresh();
  real->copy_for(loader.inside("/jax/plugin.so"));
  EXPECT_EQ(loader.reads(), reads + 2);
}

TEST_F(TwoCopiesTest, ManyCallersAtOnceAllGetTheirOwnCopy) {
  loader.map("/jax/libnccl.so.2");
  loader.map("/jax/plugin.so");
  const auto real = open_or_fail();
  // The loader is only read in look-ups; 200 objects overflow the cache of routes again and again.
  std::vector<const void*> plugins;
  for (int i = 0; i < 200; ++i) {
    const std::string path = "/jax/plugin" + std::to_string(i) + ".so";
    loader.files[path] = object("", {"libnccl.so.2.jax"});
    loader.map(path);
    plugins.push_back(loader.inside(path));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 400; ++i) {
        if (real->copy_for(plugins[(i * 7 + t * 50) % 200])->version() != 22105) ++wrong;
        if (real->copy_for(loader.inside("/site/torch/_C.so"))->version() != 22809) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// C4.
TEST_F(RealLibraryTest, ALibraryOpenedByHandleThatNobodyCalledThroughUsIsReportedAsBypassed) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  EXPECT_TRUE(bypassed(loader, nullptr).empty());
  loader.map("/wheel/libnccl.so.2");
  const auto list = bypassed(loader, nullptr);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(list[0].by_handle);
  EXPECT_EQ(
      list[0].text,
      "/wheel/libnccl.so.2 is in this process, but no call reached it through Sabot: nothing is "
      "linked to it, so it was opened with dlopen, which a preload does not see; use the stand-in "
      "libnccl.so.2 in its place");
}

TEST_F(RealLibraryTest, ALinkedLibraryThatWasNeverCalledIsNoProofOfABypass) {
  loader.files["/wheel/libnccl.so.2"] = nccl<22809>(7);
  loader.files["/site/libtorch_cuda.so"] = object("libtorch_cuda.so", {"libnccl.so.2"});
  loader.map("/wheel/libnccl.so.2");
  loader.map("/site/libtorch_cuda.so");
  auto list = bypassed(loader, nullptr);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_FALSE(list[0].by_handle);
  const auto real = open_or_fail();
  real->chosen().note_call();
  EXPECT_TRUE(bypassed(loader, real.get()).empty());
}

TEST_F(RealLibraryTest, ALibraryThatOnlyOurSearchLoadedIsNotBypassed) {
  loader.files["/conda/lib/libnccl.so.2"] = nccl<22809>(7);
  const auto real = open_or_fail({.conda_prefix = "/conda"});
  EXPECT_TRUE(bypassed(loader, real.get()).empty());
}

// C2.
TEST_F(RealLibraryTest, NcclHiddenInAnObjectIsNamedWithWhatToDo) {
  loader.files["/site/libtensorflow.so"] = object("libtensorflow.so");
  loader.files["/site/libtensorflow.so"].linkage = NcclLinkage::kHidden;
  EXPECT_TRUE(hidden_in_process(loader).empty());
  loader.map("/site/libtensorflow.so");
  const auto list = hidden_in_process(loader);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(
      list[0].text,
      "/site/libtensorflow.so has NCCL linked in statically with local symbols: no library can be "
      "put in front of it; use a build that is linked to libnccl.so.2 dynamically");
}

TEST(Version, IsWrittenAsNcclCountsIt) {
  EXPECT_EQ(format_version(22809), "2.28.9");
  EXPECT_EQ(format_version(23007), "2.30.7");
  EXPECT_EQ(format_version(2804), "2.8.4");
  EXPECT_EQ(format_version(0), "of unknown version");
}

}  // namespace
}  // namespace sabot::real
