// What went past us: copies that no call reached through Sabot, and NCCL that nothing can be
// preloaded over.
#include <algorithm>

#include "real/real_library.hpp"
#include "real/scope.hpp"

namespace sabot::real {
namespace {

bool was_called(const MappedObject& object, const RealLibrary* real) {
  if (real == nullptr) return false;
  const std::vector<const Copy*> copies = real->copies();
  return std::any_of(copies.begin(), copies.end(), [&](const Copy* copy) {
    return copy->object().begin == object.begin && copy->called();
  });
}

// Linked to it by name: such callers are bound to whoever comes first, and with a preload that is
// us.
bool is_needed(const MappedObject& copy, const std::vector<MappedObject>& objects) {
  return std::any_of(objects.begin(), objects.end(), [&](const MappedObject& object) {
    if (object.is_ours) return false;
    return std::any_of(object.needed.begin(), object.needed.end(), [&](const std::string& name) {
      return name == copy.soname || name == file_name(copy.path);
    });
  });
}

}  // namespace

std::vector<Bypass> bypassed(Loader& loader, const RealLibrary* real) {
  std::vector<Bypass> list;
  const std::vector<MappedObject> objects = loader.mapped();
  for (const MappedObject& object : objects) {
    if (!is_copy(object) || object.covers(loader.ourselves()) || was_called(object, real)) continue;
    // Loaded by our own search, and nobody but us knows it.
    const bool only_ours = real != nullptr && real->chosen().object().begin == object.begin &&
                           real->chosen().place() != Place::kMapped;
    if (only_ours) continue;
    const bool by_handle = !is_needed(object, objects);
    std::string text = object.path + " is in this process, but no call reached it through Sabot: ";
    text += by_handle
                ? "nothing is linked to it, so it was opened with dlopen, which a preload does not "
                  "see; use the stand-in libnccl.so.2 in its place"
                : "either the program made no NCCL call, or it made them through a handle from "
                  "dlopen; for the latter use the stand-in libnccl.so.2 in its place";
    list.push_back({object.path, by_handle, std::move(text)});
  }
  return list;
}

std::vector<Bypass> hidden_in_process(Loader& loader) {
  std::vector<Bypass> list;
  for (const MappedObject& object : loader.mapped()) {
    if (object.is_ours || is_copy(object) || object.path.empty() ||
        object.covers(loader.ourselves()))
      continue;
    const auto linkage = loader.linkage(object.path);
    if (!linkage.ok() || (*linkage != NcclLinkage::kHidden && *linkage != NcclLinkage::kBound))
      continue;
    list.push_back({object.path, false,
                    object.path + " " + to_string(*linkage) +
                        ": no library can be put in front of it; use a build that is linked to "
                        "libnccl.so.2 dynamically"});
  }
  return list;
}

}  // namespace sabot::real
