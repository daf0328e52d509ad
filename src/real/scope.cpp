// Builds the graph of needs once and walks it breadth first, as the loader does.
#include "real/scope.hpp"

#include <algorithm>

namespace sabot::real {

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_named_nccl(const MappedObject& object) {
  constexpr std::string_view kName = "libnccl.so";
  return std::string_view(object.soname).substr(0, kName.size()) == kName ||
         file_name(object.path).substr(0, kName.size()) == kName;
}

bool is_copy(const MappedObject& object) {
  if (object.is_ours || !object.has_nccl) return false;
  return object.has_pnccl || is_named_nccl(object);
}

Scope::Scope(const std::vector<MappedObject>& objects) : objects_(objects), needs_(objects.size()) {
  for (std::size_t i = 0; i < objects.size(); ++i) {
    for (const std::string& needed : objects[i].needed) {
      const std::size_t found = resolve(needed);
      if (found != kNoObject) needs_[i].push_back(found);
    }
  }
}

// The loader takes the first mapped object that was ever asked for by this name or calls itself so.
std::size_t Scope::resolve(std::string_view needed) const {
  for (std::size_t i = 0; i < objects_.size(); ++i)
    if (objects_[i].soname == needed || objects_[i].path == needed ||
        file_name(objects_[i].path) == needed)
      return i;
  return kNoObject;
}

std::size_t Scope::object_at(const void* address) const {
  for (std::size_t i = 0; i < objects_.size(); ++i)
    if (objects_[i].covers(address)) return i;
  return kNoObject;
}

std::vector<std::size_t> Scope::breadth_first(std::size_t root) const {
  std::vector<std::size_t> order{root};
  std::vector<bool> seen(objects_.size(), false);
  seen[root] = true;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::size_t need : needs_[order[i]]) {
      if (seen[need]) continue;
      seen[need] = true;
      order.push_back(need);
    }
  }
  return order;
}

std::size_t Scope::first_copy(const std::vector<std::size_t>& order) const {
  for (const std::size_t i : order)
    if (is_copy(objects_[i])) return i;
  return kNoObject;
}

std::size_t Scope::copy_reached_by(std::size_t caller, std::size_t next) const {
  if (objects_.empty()) return kNoObject;
  // A libnccl stays with itself: its communicators are of no use to another copy.
  if (caller != kNoObject && is_copy(objects_[caller]) && is_named_nccl(objects_[caller]))
    return caller;
  if (next != kNoObject && is_copy(objects_[next])) return next;
  const std::size_t in_program = first_copy(breadth_first(0));
  if (in_program != kNoObject) return in_program;
  if (caller == kNoObject) return kNoObject;
  // The earliest object that needs the caller, directly or not, is the one whose opening mapped it;
  // later ones were appended to the caller's scope.
  for (std::size_t root = 0; root < objects_.size(); ++root) {
    const std::vector<std::size_t> order = breadth_first(root);
    if (std::find(order.begin(), order.end(), caller) == order.end()) continue;
    const std::size_t found = first_copy(order);
    if (found != kNoObject) return found;
  }
  return kNoObject;
}

}  // namespace sabot::real
