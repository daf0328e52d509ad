// The ELF reader on real files, and on files that are cut, scrambled or something else.
#include "real/elf_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "base/random.hpp"
#include "real/elf_notes.hpp"
#include "real/ld_cache.hpp"
#include "real/loader.hpp"

namespace sabot::real {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The C library of this process: a real shared library with symbol versions and sections.
std::string libc_path() {
  for (const MappedObject& object : process_loader().mapped())
    if (object.soname == "libc.so.6") return object.path;
  return "";
}

class ElfFileTest : public ::testing::Test {
 protected:
  ElfFileTest() { path_ = ::testing::TempDir() + "sabot_elf_" + std::to_string(::getpid()); }
  ~ElfFileTest() override { ::unlink(path_.c_str()); }

  const std::string& write(std::string_view bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_;
  }
  std::string error_of(std::string_view bytes) {
    const auto file = ElfFile::open(write(bytes));
    return file.ok() ? "opened" : file.error().message().substr(path_.size());
  }

  std::string path_;
};

TEST_F(ElfFileTest, ThisProgramSaysWhatItNeedsAndWhoStartsIt) {
  const auto file = ElfFile::open("/proc/self/exe");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_THAT(file->needed(), Contains("libc.so.6"));
  EXPECT_THAT(file->interpreter(), HasSubstr("/ld-linux"));
  EXPECT_TRUE(file->is_native());
  EXPECT_FALSE(file->is_library());
  EXPECT_TRUE(file->is_dynamic());
  EXPECT_TRUE(file->imports("dl_iterate_phdr") || file->imports("dlopen"));
  EXPECT_EQ(file->nccl_linkage().value(), NcclLinkage::kNone);
}

TEST_F(ElfFileTest, TheCLibraryExportsWhatItDefines) {
  const auto file = ElfFile::open(libc_path());
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->soname(), "libc.so.6");
  EXPECT_TRUE(file->is_library());
  EXPECT_TRUE(file->exports("getpid"));
  EXPECT_FALSE(file->exports("ncclAllReduce"));
  EXPECT_FALSE(file->imports("getpid"));
  EXPECT_TRUE(file->contains_text("GNU C Library").value());
  EXPECT_FALSE(file->contains_text("no such text is in there").value());
}

TEST_F(ElfFileTest, SymbolsAreCountedWithoutSectionsToo) {
  std::string bytes = content_of(libc_path());
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.e_shoff = 0;
  header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  const auto file = ElfFile::open(write(bytes));
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_TRUE(file->exports("getpid"));
  EXPECT_TRUE(file->exports("fopen"));
  EXPECT_EQ(file->soname(), "libc.so.6");
}

TEST_F(ElfFileTest, TheFileAndTheMappingAgreeOnTheBuildId) {
  for (const MappedObject& object : process_loader().mapped()) {
    if (object.path.empty() || object.path.front() != '/' || object.build_id.empty()) continue;
    const auto file = ElfFile::open(object.path);
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->build_id(), object.build_id) << object.path;
    EXPECT_EQ(file->soname(), object.soname) << object.path;
    EXPECT_EQ(file->needed(), object.needed) << object.path;
  }
}

TEST_F(ElfFileTest, OtherFilesAreErrorsWithTheirReason) {
  EXPECT_EQ(error_of(""), ": it is too short for an ELF file");
  EXPECT_EQ(error_of(std::string(200, 'x')), ": it is not an ELF file");
  std::string bytes = content_of("/proc/self/exe").substr(0, 4096);
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(error_of(bytes), ": it is not a 64-bit little-endian ELF file");
  EXPECT_EQ(ElfFile::open("/").error().message(), "/: it is not a regular file");
  EXPECT_EQ(ElfFile::open("/dev/zero").error().message(), "/dev/zero: it is not a regular file");
  EXPECT_EQ(ElfFile::open("/gone").error().code(), Code::kNotFound);
}

TEST_F(ElfFileTest, AFifoIsRefusedAndDoesNotBlock) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(ElfFile::open(path_).error().message(), HasSubstr("it is not a regular file"));
}

TEST_F(ElfFileTest, ACutFileIsAnErrorOrStillReadable) {
  const std::string whole = content_of(libc_path());
  int errors = 0;
  for (std::size_t bytes = 1; bytes < whole.size(); bytes += bytes / 3 + 13) {
    const auto file = ElfFile::open(write(std::string_view(whole).substr(0, bytes)));
    if (!file.ok()) ++errors;
    if (file.ok()) file->nccl_linkage().ignore();
  }
  EXPECT_GT(errors, 20);
}

// Bytes in the tables that steer the reader are replaced; it must end, with or without an error.
TEST_F(ElfFileTest, ScrambledTablesNeverCrash) {
  const std::string whole = content_of(libc_path());
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  Random random(20240607);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole.substr(0, 256 << 10);
    const std::size_t changes = 1 + random.below(8);
    for (std::size_t i = 0; i < changes; ++i) {
      const bool in_headers = random.below(4) != 0;
      const std::size_t at = in_headers ? random.below(1024) : random.below(bytes.size());
      bytes[at < 16 ? at + 16 : at] = static_cast<char>(random.below(256));
    }
    SCOPED_TRACE("round " + std::to_string(round) + " of seed 20240607");
    const auto file = ElfFile::open(write(bytes));
    if (!file.ok()) continue;
    file->exports("getpid");
    file->each_symbol([](const ElfFile::Symbol&) { return true; }).ignore();
    file->nccl_linkage().ignore();
  }
}

TEST(ElfNotes, ABrokenNoteHasNoBuildId) {
  const Elf64_Nhdr note{4, 2, NT_GNU_BUILD_ID};
  std::string bytes(reinterpret_cast<const char*>(&note), sizeof note);
  bytes += std::string("GNU\0", 4) + "\xab\xcd" + std::string(2, '\0');
  EXPECT_EQ(build_id_in_notes(bytes.data(), bytes.size()), "abcd");
  EXPECT_EQ(build_id_in_notes(bytes.data(), bytes.size() - 3), "");
  EXPECT_EQ(build_id_in_notes(bytes.data(), 5), "");
  const Elf64_Nhdr huge{0xfffffff0u, 0xfffffff0u, NT_GNU_BUILD_ID};
  EXPECT_EQ(build_id_in_notes(reinterpret_cast<const char*>(&huge), sizeof huge), "");
}

// A cache with one entry, as ldconfig writes it.
std::string cache_of(const std::string& name, const std::string& path, std::uint32_t flags) {
  std::string bytes = "glibc-ld.so.cache1.1";
  const auto put = [&](std::uint32_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(1);
  put(static_cast<std::uint32_t>(name.size() + path.size() + 2));
  for (int i = 0; i < 5; ++i) put(0);
  const auto strings = static_cast<std::uint32_t>(bytes.size() + 24);
  put(flags);
  put(strings);
  put(strings + static_cast<std::uint32_t>(name.size()) + 1);
  for (int i = 0; i < 3; ++i) put(0);
  return bytes + name + '\0' + path + '\0';
}

#if defined(__x86_64__)
constexpr std::uint32_t kThisMachine = 0x0303;
#else
constexpr std::uint32_t kThisMachine = 0x0a03;
#endif

TEST(LoaderCache, NamesThePathsOfALibraryOfThisMachine) {
  const std::string cache = cache_of("libnccl.so.2", "/usr/lib/libnccl.so.2", kThisMachine);
  EXPECT_THAT(paths_in_ld_cache(cache, "libnccl.so.2"), ElementsAre("/usr/lib/libnccl.so.2"));
  EXPECT_THAT(paths_in_ld_cache("older format in front" + cache, "libnccl.so.2"),
              ElementsAre("/usr/lib/libnccl.so.2"));
  EXPECT_TRUE(paths_in_ld_cache(cache, "libnccl.so").empty());
  EXPECT_TRUE(
      paths_in_ld_cache(cache_of("libnccl.so.2", "/usr/lib32/libnccl.so.2", 0x0003), "libnccl.so.2")
          .empty());
}

TEST(LoaderCache, GarbageNamesNothing) {
  const std::string cache = cache_of("libnccl.so.2", "/usr/lib/libnccl.so.2", kThisMachine);
  for (std::size_t bytes = 0; bytes < cache.size(); ++bytes)
    EXPECT_TRUE(paths_in_ld_cache(std::string_view(cache).substr(0, bytes), "libnccl.so.2").empty())
        << bytes;
  EXPECT_TRUE(paths_in_ld_cache(std::string(4096, '\xff'), "libnccl.so.2").empty());
}

TEST(LoaderCache, TheCacheOfThisMachineNamesTheCLibrary) {
  if (::access("/etc/ld.so.cache", R_OK) != 0) GTEST_SKIP() << "no /etc/ld.so.cache here";
  EXPECT_FALSE(paths_in_ld_cache(content_of("/etc/ld.so.cache"), "libc.so.6").empty());
}

}  // namespace
}  // namespace sabot::real
