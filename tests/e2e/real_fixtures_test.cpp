// The finder and the ELF reader on real libraries: the stub NCCLs and the programs linked to them
// in every way. What is opened here stays mapped, so each test uses a copy of its own or says what
// it expects first.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "real/elf_file.hpp"
#include "real/real_library.hpp"

namespace sabot::real {
namespace {

using ::testing::HasSubstr;

std::string fixture(const std::string& name) { return std::string(SABOT_FIXTURES) + "/" + name; }

NcclLinkage linkage_of(const std::string& name) {
  const auto file = ElfFile::open(fixture(name));
  EXPECT_TRUE(file.ok()) << file.error().message();
  return file.ok() ? file->nccl_linkage().value() : NcclLinkage::kNone;
}

TEST(NcclLinkage, IsToldApartForEveryWayOfLinking) {
  EXPECT_EQ(linkage_of("a/libnccl.so.2"), NcclLinkage::kLibrary);
  EXPECT_EQ(linkage_of("linked_rpath"), NcclLinkage::kDynamic);
  EXPECT_EQ(linkage_of("framework_none.so"), NcclLinkage::kDynamic);
  EXPECT_EQ(linkage_of("framework_static.so"), NcclLinkage::kExported);
  EXPECT_EQ(linkage_of("framework_symbolic.so"), NcclLinkage::kBound);
  EXPECT_EQ(linkage_of("framework_hidden.so"), NcclLinkage::kHidden)
      << "stripped: by NCCL's own text";
  EXPECT_EQ(linkage_of("linked_static"), NcclLinkage::kHidden) << "a program exports nothing";
  EXPECT_EQ(linkage_of("opener"), NcclLinkage::kNone);
  EXPECT_EQ(linkage_of("handle"), NcclLinkage::kNone) << "dlopen leaves no trace in a file";
}

TEST(ElfFile, SaysWhichRuleOfTheLoaderWillFindTheLibrary) {
  const auto rpath = ElfFile::open(fixture("linked_rpath"));
  EXPECT_EQ(rpath->rpath(), fixture("a"));
  EXPECT_EQ(rpath->runpath(), "");
  const auto runpath = ElfFile::open(fixture("linked_runpath"));
  EXPECT_EQ(runpath->rpath(), "");
  EXPECT_EQ(runpath->runpath(), fixture("a"));
  EXPECT_EQ(ElfFile::open(fixture("c/libnccl.so.2.23"))->soname(), "libnccl.so.2.23");
}

// One story, because what is mapped stays mapped: found by name, then joined by a second copy (C1).
TEST(RealLibrary, HoldsRealCopiesAndRoutesTheirRealCallers) {
  const std::string path = fixture("b/libnccl.so.2");
  EXPECT_EQ(bypassed(process_loader(), nullptr).size(), 0u);
  auto opened = open(process_loader(), {.library_path = fixture("b")});
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  RealLibrary& real = **opened;
  EXPECT_EQ(real.text(), "NCCL 2.21.5 from " + path + " (LD_LIBRARY_PATH)");
  EXPECT_EQ(real.chosen().build_id(), ElfFile::open(path)->build_id());
  EXPECT_EQ(real.chosen().build_id().size(), 40u);

  void* symbol = real.next("AllReduce");
  EXPECT_EQ(symbol, ::dlsym(real.chosen().handle(), "pncclAllReduce"));
  EXPECT_EQ(real.route_for(symbol).caller, Caller::kCopy);
  EXPECT_EQ(real.next("CommShrink"), nullptr);
  EXPECT_EQ(real.route_for(reinterpret_cast<const void*>(&linkage_of)).caller,
            Caller::kApplication);
  EXPECT_FALSE(real.maps_changed());

  void* framework = ::dlopen(fixture("framework_second.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(framework, nullptr) << ::dlerror();
  EXPECT_TRUE(real.maps_changed());
  const auto line = real.refresh();
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, HasSubstr(path + " (NCCL 2.21.5, build id "));
  EXPECT_THAT(*line, HasSubstr(fixture("c/libnccl.so.2.23") + " (NCCL 2.23.4, build id "));
  const void* caller = ::dlsym(framework, "framework_session");
  EXPECT_EQ(real.copy_for(caller)->version(), 22304);
  EXPECT_EQ(real.copy_for(caller)->path(), fixture("c/libnccl.so.2.23"));

  void* with_nccl_inside = ::dlopen(fixture("framework_static.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(with_nccl_inside, nullptr) << ::dlerror();
  EXPECT_TRUE(real.refresh().has_value());
  const Route inside = real.route_for(::dlsym(with_nccl_inside, "framework_session"));
  EXPECT_EQ(inside.copy->version(), 22809);
  EXPECT_EQ(inside.caller, Caller::kApplication);
  EXPECT_EQ(real.copies().size(), 3u);
}

TEST(RealLibrary, ReportsWhatNothingCanBePutInFrontOf) {
  ASSERT_NE(::dlopen(fixture("framework_hidden.so").c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
  const auto list = hidden_in_process(process_loader());
  ASSERT_EQ(list.size(), 1u);
  EXPECT_THAT(list[0].text,
              HasSubstr("framework_hidden.so has NCCL linked in statically with local"));
}

}  // namespace
}  // namespace sabot::real
