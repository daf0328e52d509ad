// The real form of the loader seam, on this process.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real/loader.hpp"

namespace sabot::real {
namespace {

const MappedObject* find(const std::vector<MappedObject>& objects, const std::string& soname) {
  for (const MappedObject& object : objects)
    if (object.soname == soname) return &object;
  return nullptr;
}

TEST(ProcessLoader, TheProgramComesFirstAndContainsThisCode) {
  const auto objects = process_loader().mapped();
  ASSERT_FALSE(objects.empty());
  EXPECT_EQ(objects[0].path.front(), '/');
  EXPECT_TRUE(objects[0].covers(process_loader().ourselves()));
  EXPECT_FALSE(objects[0].has_nccl);
}

TEST(ProcessLoader, ASymbolIsThatOfTheObjectItselfAndNotOfItsNeeds) {
  const auto objects = process_loader().mapped();
  const MappedObject* libc = find(objects, "libc.so.6");
  ASSERT_NE(libc, nullptr);
  EXPECT_EQ(process_loader().symbol_in(*libc, "getpid"), ::dlsym(RTLD_DEFAULT, "getpid"));
  EXPECT_EQ(process_loader().symbol_in(*libc, "ncclAllReduce"), nullptr);
  EXPECT_EQ(process_loader().symbol_in(objects[0], "getpid"), nullptr);
  const MappedObject* cxx = find(objects, "libstdc++.so.6");
  if (cxx != nullptr) {
    EXPECT_EQ(process_loader().symbol_in(*cxx, "getpid"), nullptr);
  }
}

TEST(ProcessLoader, RangesOfObjectsDoNotOverlap) {
  const auto objects = process_loader().mapped();
  for (const MappedObject& a : objects) {
    for (const MappedObject& b : objects) {
      const bool apart = &a == &b || a.end <= b.begin || b.end <= a.begin;
      EXPECT_TRUE(apart) << a.path << " " << b.path;
    }
  }
}

TEST(ProcessLoader, OpeningSomethingIsSeenAsAChange) {
  const std::uint64_t before = process_loader().changes();
  EXPECT_EQ(process_loader().changes(), before);
  void* handle = ::dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) GTEST_SKIP() << "no libanl.so.1 here";
  EXPECT_NE(process_loader().changes(), before);
  ::dlclose(handle);
}

TEST(ProcessLoader, WhatIsNotMappedIsNotPinnedAndWhatIsNotThereIsAnErrorOfTheLoader) {
  EXPECT_FALSE(process_loader().open("libsabot-no-such.so", Loader::Open::kOnlyIfMapped).ok());
  const auto missing = process_loader().open("libsabot-no-such.so", Loader::Open::kLoad);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message(), ::testing::HasSubstr("cannot open shared object file"));
  EXPECT_TRUE(process_loader().open("libc.so.6", Loader::Open::kOnlyIfMapped).ok());
}

}  // namespace
}  // namespace sabot::real
