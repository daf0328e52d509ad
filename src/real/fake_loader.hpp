// A loader with state, for tests: a table of files, a list of mapped objects, and functions to
// call.
//
// Objects get disjoint address ranges; a symbol of theirs is a real function of the test, so that a
// copy can be asked for its version. Opening a file maps it, closing is unmap(); both move the
// change counter, as the real loader does. What it records (opened) shows which candidates were
// tried.
#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "real/loader.hpp"

namespace sabot::real {

// A libnccl or something else that may be mapped, as text that a test can write down.
struct FakeFile {
  std::string soname;
  std::vector<std::string> needed;
  std::string run_path = {};
  std::map<std::string, void*> symbols;
  FileId id;
  std::string build_id;
  NcclLinkage linkage = NcclLinkage::kNone;
  bool is_library = true;
};

class FakeLoader final : public Loader {
 public:
  std::map<std::string, FakeFile> files;
  std::map<std::string, std::string> names;  // what the loader's search finds for a bare name
  std::vector<std::string> cache;            // what the loader's cache lists
  std::map<std::string, void*> next;         // what RTLD_NEXT answers
  std::vector<std::string> opened;           // every request to map something, in order
  std::vector<std::string> shown;            // requests to add something to the global scope
  std::string ours;                          // the path of the object that is Sabot
  std::set<std::string> refused;             // files that the loader cannot map

  // Maps a file that is in the table, as the program or its framework would have.
  const MappedObject& map(const std::string& path) {
    const FakeFile& file = files.at(path);
    MappedObject object;
    object.path = path;
    object.soname = file.soname;
    object.needed = file.needed;
    object.run_path = file.run_path;
    object.begin = next_address_;
    object.end = next_address_ + 0x1000;
    object.build_id = file.build_id;
    object.is_ours = file.symbols.count("sabot_stack_v1") != 0;
    object.has_nccl = file.symbols.count("ncclCommInitRank") != 0;
    object.has_pnccl = file.symbols.count("pncclCommInitRank") != 0;
    next_address_ += 0x10000;
    ++changes_;
    objects_.push_back(object);
    return objects_.back();
  }

  void unmap(const std::string& path) {
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i].path != path) continue;
      objects_.erase(objects_.begin() + static_cast<std::ptrdiff_t>(i));
      ++changes_;
      return;
    }
  }

  // An address inside a mapped object, as a return address would be.
  const void* inside(const std::string& path) const {
    for (const MappedObject& object : objects_)
      if (object.path == path) return reinterpret_cast<const void*>(object.begin + 0x10);
    return nullptr;
  }
  std::size_t reads() const { return reads_; }

  std::vector<MappedObject> mapped() override {
    ++reads_;
    return objects_;
  }
  std::uint64_t changes() noexcept override { return changes_; }

  Result<FileFacts> inspect(const std::string& path) override {
    const auto file = files.find(path);
    if (file == files.end()) return Error(Code::kNotFound, path + ": No such file or directory");
    if (!file->second.is_library)
      return Error(Code::kInvalidArgument, path + ": it is not an ELF file");
    const auto& symbols = file->second.symbols;
    return FileFacts{file->second.id, symbols.count("sabot_stack_v1") != 0,
                     symbols.count("ncclGetVersion") + symbols.count("pncclGetVersion") != 0};
  }

  Result<Opened> open(const std::string& name, Open how) override {
    (how == Open::kShow ? shown : opened).push_back(name);
    const auto search = names.find(name);
    const std::string path = search == names.end() ? name : search->second;
    for (const MappedObject& object : objects_)
      if (object.path == path || object.soname == name)
        return Opened{reinterpret_cast<void*>(object.begin), object.path};
    if (how != Open::kLoad || files.count(path) == 0)
      return Error(Code::kNotFound, name + ": cannot open shared object file");
    if (refused.count(path) != 0) return Error(Code::kNotFound, name + ": undefined symbol: cuFoo");
    const MappedObject& object = map(path);
    return Opened{reinterpret_cast<void*>(object.begin), path};
  }

  std::vector<std::string> cached_paths(const std::string&) override { return cache; }

  Result<NcclLinkage> linkage(const std::string& path) override {
    const auto file = files.find(path);
    if (file == files.end()) return Error(Code::kNotFound, path + ": No such file or directory");
    return NcclLinkage(file->second.linkage);
  }

  void* symbol_in(const MappedObject& object, const char* name) override {
    const auto& symbols = files.at(object.path).symbols;
    const auto found = symbols.find(name);
    return found == symbols.end() ? nullptr : found->second;
  }

  void* next_symbol(const char* name) override {
    const auto found = next.find(name);
    return found == next.end() ? nullptr : found->second;
  }

  const void* ourselves() override { return inside(ours); }

 private:
  std::vector<MappedObject> objects_;
  std::uintptr_t next_address_ = 0x100000;
  std::uint64_t changes_ = 0;
  std::atomic<std::size_t> reads_{0};
};

}  // namespace sabot::real
