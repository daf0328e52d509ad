// The order: what the user named, what the process already has, what the framework would load, what
// the loader would give, what the environment hints at.
#include "real/search.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "real/scope.hpp"

namespace sabot::real {
namespace {

using Candidates = std::vector<Candidate>;

bool needs_nccl(const MappedObject& object) {
  return std::find(object.needed.begin(), object.needed.end(), "libnccl.so.2") !=
         object.needed.end();
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

void offer(Candidates& list, Place place, std::string path) {
  list.push_back({place, std::move(path), "", false});
}

void offer_nothing(Candidates& list, Place place, std::string why) {
  list.push_back({place, "", std::move(why), false});
}

// Libraries of their own come before programs and frameworks that NCCL was linked into.
void add_mapped(Candidates& list, const std::vector<MappedObject>& objects) {
  const std::size_t before = list.size();
  for (const MappedObject& object : objects)
    if (is_named_nccl(object)) list.push_back({Place::kMapped, object.path, "", true});
  for (const MappedObject& object : objects)
    if (is_copy(object) && !is_named_nccl(object))
      list.push_back({Place::kMapped, object.path, "", true});
  if (list.size() == before) offer_nothing(list, Place::kMapped, "no libnccl.so is mapped");
}

// The folders that the wheels' DT_RPATH names, then the folder where some builds bundle it.
void add_near_torch(Candidates& list, const std::vector<MappedObject>& objects) {
  const std::size_t before = list.size();
  for (const MappedObject& object : objects) {
    if (file_name(object.path) != "libtorch_cuda.so") continue;
    const std::string folder = folder_of(object.path);
    offer(list, Place::kNearTorch, folder + "/../../nvidia/nccl/lib/libnccl.so.2");
    offer(list, Place::kNearTorch, folder + "/../../nvidia/cu13/lib/libnccl.so.2");
    offer(list, Place::kNearTorch, folder + "/libnccl.so.2");
  }
  if (list.size() == before)
    offer_nothing(list, Place::kNearTorch, "no libtorch_cuda.so is mapped");
}

// Where the loader would have gone for them, had our stand-in not come first under that name.
void add_run_paths(Candidates& list, const std::vector<MappedObject>& objects) {
  const std::size_t before = list.size();
  for (const MappedObject& object : objects) {
    if (object.is_ours || object.run_path.empty() || !needs_nccl(object)) continue;
    for (const std::string_view entry : split(object.run_path, ':')) {
      std::string folder(entry);
      for (const std::string_view origin : {"${ORIGIN}", "$ORIGIN"})
        if (const std::size_t at = folder.find(origin); at != std::string::npos)
          folder.replace(at, origin.size(), folder_of(object.path));
      if (!folder.empty()) offer(list, Place::kRunPath, folder + "/libnccl.so.2");
    }
  }
  if (list.size() == before) offer_nothing(list, Place::kRunPath, "no such object has one");
}

void add_prefix(Candidates& list, Place place, const std::string& prefix) {
  if (prefix.empty()) return offer_nothing(list, place, "not set");
  offer(list, place, prefix + "/lib/libnccl.so.2");
}

// The bare names go to the loader; in a process whose libnccl.so.2 is our stand-in they only lead
// back to us, so the folders that the loader would look at are asked as well.
void add_loader(Candidates& list, const SearchSettings& settings,
                const std::vector<std::string>& cached) {
  offer(list, Place::kLoaderName, "libnccl.so.2");
  offer(list, Place::kLoaderName, "libnccl.so");
  for (const std::string_view folder : split(settings.library_path, ':'))
    if (!folder.empty()) offer(list, Place::kLibraryPath, std::string(folder) + "/libnccl.so.2");
  if (settings.library_path.empty()) offer_nothing(list, Place::kLibraryPath, "not set");
  for (const std::string& path : cached) offer(list, Place::kLoaderCache, path);
  if (cached.empty()) offer_nothing(list, Place::kLoaderCache, "names no libnccl.so.2");
}

}  // namespace

Candidates candidates(const SearchSettings& settings, const std::vector<MappedObject>& objects,
                      const std::string& next_path, const std::vector<std::string>& cached) {
  Candidates list;
  if (!settings.real_nccl.empty()) {
    offer(list, Place::kNamed, settings.real_nccl);
    return list;  // using another library than the one named would hide a mistake
  }
  offer_nothing(list, Place::kNamed, "not set");
  add_mapped(list, objects);
  add_near_torch(list, objects);
  add_run_paths(list, objects);
  if (next_path.empty()) {
    offer_nothing(list, Place::kNext, "no other object offers ncclGetVersion");
  } else {
    list.push_back({Place::kNext, next_path, "", true});
  }
  add_prefix(list, Place::kConda, settings.conda_prefix);
  add_prefix(list, Place::kNcclRoot, settings.nccl_root);
  add_loader(list, settings, cached);
  return list;
}

}  // namespace sabot::real
