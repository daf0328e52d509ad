// Walks the candidates, holds the copies, routes callers.
#include "real/real_library.hpp"

#include <algorithm>

#include "real/scope.hpp"
#include "real/search.hpp"

namespace sabot::real {
namespace {

const MappedObject* object_of(const std::vector<MappedObject>& objects, const void* address) {
  const auto found = std::find_if(objects.begin(), objects.end(), [&](const MappedObject& object) {
    return object.covers(address);
  });
  return found == objects.end() ? nullptr : &*found;
}

const MappedObject* object_with_path(const std::vector<MappedObject>& objects,
                                     const std::string& path) {
  const auto found = std::find_if(objects.begin(), objects.end(),
                                  [&](const MappedObject& object) { return object.path == path; });
  return found == objects.end() ? nullptr : &*found;
}

// The program has no name by which the loader could pin it, and needs no pin.
void* pin(Loader& loader, const std::vector<MappedObject>& objects, const MappedObject& object) {
  if (object.begin == objects.front().begin) return nullptr;
  auto opened = loader.open(object.path, Loader::Open::kOnlyIfMapped);
  return opened.ok() ? opened->handle : nullptr;
}

class Search {
 public:
  Search(Loader& loader, std::vector<Rejection>& rejected)
      : loader_(loader), rejected_(rejected), objects_(loader.mapped()) {}

  // Null if nothing was usable; then every place is among the rejections.
  std::unique_ptr<Copy> run(const SearchSettings& settings) {
    std::string next_path;
    if (const void* next = loader_.next_symbol("ncclGetVersion"))
      if (const MappedObject* object = object_of(objects_, next)) next_path = object->path;
    for (const Candidate& candidate :
         candidates(settings, objects_, next_path, loader_.cached_paths("libnccl.so.2"))) {
      auto tried =
          candidate.path.empty() ? Error(Code::kNotFound, candidate.absent) : attempt(candidate);
      if (tried.ok()) return std::move(tried).value();
      rejected_.push_back({candidate.place, candidate.path, tried.error().message()});
    }
    return nullptr;
  }

  const std::vector<MappedObject>& objects() const { return objects_; }

 private:
  using Attempt = Result<std::unique_ptr<Copy>>;

  Attempt attempt(const Candidate& candidate) {
    if (candidate.mapped) return adopt(candidate);
    const bool by_name = candidate.path.find('/') == std::string::npos;
    if (candidate.place == Place::kNamed && candidate.path.front() != '/')
      return Error(Code::kInvalidArgument, "it is not an absolute path");
    if (!by_name) SABOT_TRY(check(candidate.path));
    const Opened opened = SABOT_TRY(loader_.open(candidate.path, Loader::Open::kLoad));
    objects_ = loader_.mapped();
    const MappedObject* object = object_with_path(objects_, opened.path);
    if (object == nullptr)
      return Error(Code::kInternal, "it was opened but is not among the mapped");
    return usable(*object, candidate.place, opened.handle);
  }

  Attempt adopt(const Candidate& candidate) {
    const MappedObject* object = object_with_path(objects_, candidate.path);
    if (object == nullptr) return Error(Code::kInternal, "it is no longer mapped");
    return usable(*object, candidate.place, pin(loader_, objects_, *object));
  }

  // Before anything is mapped: opening a library runs its constructors.
  Status check(const std::string& path) {
    auto facts = loader_.inspect(path);
    if (!facts.ok()) {
      const std::string& message = facts.error().message();
      const bool named = message.compare(0, path.size() + 2, path + ": ") == 0;
      return Error(facts.error().code(), named ? message.substr(path.size() + 2) : message);
    }
    if (facts->is_ours || is_our_file(facts->id)) return Error(Code::kInvalidUsage, kIsOurs);
    if (!facts->has_nccl) return Error(Code::kInvalidArgument, kNotNccl);
    return {};
  }

  bool is_our_file(const FileId& id) {
    const MappedObject* self = object_of(objects_, loader_.ourselves());
    if (self == nullptr) return false;
    const auto facts = loader_.inspect(self->path);
    return facts.ok() && facts->id == id;
  }

  Attempt usable(const MappedObject& object, Place place, void* handle) {
    if (object.is_ours || object.covers(loader_.ourselves()))
      return Error(Code::kInvalidUsage, kIsOurs);
    if (loader_.symbol_in(object, "pncclGetVersion") == nullptr &&
        loader_.symbol_in(object, "ncclGetVersion") == nullptr)
      return Error(Code::kInvalidArgument, kNotNccl);
    return std::make_unique<Copy>(loader_, object, place, handle);
  }

  static constexpr const char* kIsOurs = "it is Sabot itself";
  static constexpr const char* kNotNccl = "it is not NCCL: it has no ncclGetVersion";

  Loader& loader_;
  std::vector<Rejection>& rejected_;
  std::vector<MappedObject> objects_;
};

Error nothing_found(const SearchSettings& settings, const std::vector<Rejection>& rejected) {
  if (!settings.real_nccl.empty())
    return Error(
        Code::kInvalidArgument,
        "SABOT_REAL_NCCL names '" + settings.real_nccl +
            "', which cannot be used: " + rejected.back().reason +
            "; name the vendor's libnccl.so.2 by its absolute path, or unset it to search");
  return Error(
      Code::kNotFound,
      "no NCCL library was found; set SABOT_REAL_NCCL to the absolute path of the vendor's "
      "libnccl.so.2, or use the host engine. Searched:\n" +
          searched_text(rejected));
}

}  // namespace

Result<std::unique_ptr<RealLibrary>> open(Loader& loader, const SearchSettings& settings) {
  std::unique_ptr<RealLibrary> real(new RealLibrary(loader));
  // Read first: what is mapped while we search shows as a change afterwards.
  const std::uint64_t changes = loader.changes();
  Search search(loader, real->rejected_);
  std::unique_ptr<Copy> found = search.run(settings);
  if (found == nullptr) return nothing_found(settings, real->rejected_);
  const bool loaded = found->place() != Place::kMapped && found->place() != Place::kNext;
  real->chosen_ = real->add_copy(std::move(found));
  real->adopt_mapped(search.objects());
  real->changes_seen_ = loaded ? loader.changes() : changes;
  return real;
}

std::string RealLibrary::text() const {
  return "NCCL " + format_version(chosen_->version()) + " from " + chosen_->path() + " (" +
         to_string(chosen_->place()) + ")";
}

const Copy* RealLibrary::add_copy(std::unique_ptr<Copy> copy) {
  const std::size_t count = count_;
  if (count == kCopiesMax) return nullptr;  // beyond it callers go to the chosen one
  copies_[count] = std::move(copy);
  count_ = count + 1;
  return copies_[count].get();
}

const Copy* RealLibrary::known(const MappedObject& object) const noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    if (copies_[i]->object().begin == object.begin) return copies_[i].get();
  return nullptr;
}

// Pins every copy that is mapped: what a route points to must not go away. Copies are made outside
// the lock, because making one asks the library for its version, and that is foreign code that may
// call us.
bool RealLibrary::adopt_mapped(const std::vector<MappedObject>& objects) {
  std::vector<std::unique_ptr<Copy>> found;
  for (const MappedObject& object : objects) {
    if (!is_copy(object) || object.covers(loader_->ourselves()) || known(object) != nullptr)
      continue;
    found.push_back(
        std::make_unique<Copy>(*loader_, object, Place::kMapped, pin(*loader_, objects, object)));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  bool grew = false;
  for (std::unique_ptr<Copy>& copy : found)
    if (known(copy->object()) == nullptr) grew |= add_copy(std::move(copy)) != nullptr;
  return grew;
}

bool RealLibrary::in_wrapper(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Range& wrapper : wrappers_) {
    const std::uintptr_t end = wrapper.end;
    if (end == 0) return false;
    if (at >= wrapper.begin && at < end) return true;
  }
  return false;
}

// Another tool's wrapper is what RTLD_NEXT leads to where that is neither NCCL nor ours.
bool RealLibrary::leads_to_wrapper(const void* function) const {
  if (function == nullptr || copy_at(function) != nullptr) return false;
  if (in_wrapper(function)) return true;
  const std::vector<MappedObject> objects = loader_->mapped();
  const MappedObject* object = object_of(objects, function);
  if (object == nullptr || object->is_ours || is_copy(*object) ||
      object->covers(loader_->ourselves()))
    return false;
  if (!note_wrapper(*object)) return false;
  // A tool behind us asks for the definition behind itself. Where the library was opened locally,
  // by Python or by our own search, that would be none.
  if (chosen_->is_dedicated() && chosen_->handle() != nullptr)
    loader_->open(chosen_->path(), Loader::Open::kShow).ignore();
  return true;
}

bool RealLibrary::note_wrapper(const MappedObject& object) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Range& wrapper : wrappers_) {
    if (wrapper.end != 0) continue;
    wrapper.begin = object.begin;
    wrapper.end = object.end;
    return true;
  }
  return false;  // too many tools to know them apart: straight to NCCL cannot recurse
}

void* RealLibrary::next(std::string_view function, const Copy& copy) const {
  const std::string name = "nccl" + std::string(function);
  void* found = loader_->next_symbol(name.c_str());
  return leads_to_wrapper(found) ? found : copy.symbol(function);
}

std::vector<const Copy*> RealLibrary::copies() const {
  std::vector<const Copy*> list;
  for (std::size_t i = 0; i < count_; ++i) list.push_back(copies_[i].get());
  return list;
}

const Copy* RealLibrary::copy_at(const void* address) const noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    if (copies_[i]->contains(address)) return copies_[i].get();
  return nullptr;
}

Route RealLibrary::route_for(const void* return_address) const noexcept {
  const Copy* inside = copy_at(return_address);
  if (inside != nullptr && inside->is_dedicated()) return {inside, Caller::kCopy};
  const Caller caller = in_wrapper(return_address) ? Caller::kWrapper : Caller::kApplication;
  if (count_ == 1 || chosen_->place() == Place::kNamed) return {chosen_, caller};
  if (const Copy* cached = cached_route(return_address)) return {cached, caller};
  try {
    return {look_up_route(return_address), caller};
  } catch (const std::bad_alloc&) {  // the chosen one is the best guess
    return {chosen_, caller};
  }
}

const Copy* RealLibrary::cached_route(const void* return_address) const noexcept {
  const std::uint32_t before = version_;
  if ((before & 1) != 0) return nullptr;
  const auto at = reinterpret_cast<std::uintptr_t>(return_address);
  for (const CachedRoute& route : routes_) {
    const std::uintptr_t end = route.end;
    if (end == 0) break;
    if (at < route.begin || at >= end) continue;
    const Copy* copy = route.copy;
    return version_ == before ? copy : nullptr;
  }
  return nullptr;
}

const Copy* RealLibrary::look_up_route(const void* return_address) const {
  const std::vector<MappedObject> objects = loader_->mapped();
  const Scope scope(objects);
  const std::size_t caller = scope.object_at(return_address);
  const void* next = loader_->next_symbol("ncclCommInitRank");
  const std::size_t reached =
      scope.copy_reached_by(caller, next == nullptr ? kNoObject : scope.object_at(next));
  const Copy* copy = reached == kNoObject ? nullptr : known(objects[reached]);
  if (copy == nullptr) copy = chosen_;
  if (caller == kNoObject) return copy;
  // Whoever holds it may be a thread that a forked child does not have; the answer is right
  // uncached.
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return copy;
  CachedRoute& route = routes_[route_next_];
  route_next_ = (route_next_ + 1) % kRoutesMax;
  ++version_;
  route.begin = objects[caller].begin;
  route.copy = copy;
  route.end = objects[caller].end;
  ++version_;
  return copy;
}

void RealLibrary::forget_routes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++version_;
  for (CachedRoute& route : routes_) route.end = 0;
  route_next_ = 0;
  ++version_;
}

bool RealLibrary::maps_changed() const noexcept { return loader_->changes() != changes_seen_; }

std::optional<std::string> RealLibrary::refresh() {
  const std::uint64_t changes = loader_->changes();
  const bool grew = adopt_mapped(loader_->mapped());
  forget_routes();
  changes_seen_ = changes;
  return grew ? several_copies_text() : std::nullopt;
}

std::optional<std::string> RealLibrary::several_copies_text() const {
  const std::size_t count = count_;
  if (count < 2) return std::nullopt;
  std::string line = std::to_string(count) + " copies of NCCL are in this process: ";
  for (std::size_t i = 0; i < count; ++i) line += (i == 0 ? "" : ", ") + copies_[i]->text();
  line += chosen_->place() == Place::kNamed
              ? "; every call goes to the one named by SABOT_REAL_NCCL"
              : "; each call goes to the copy that its caller would reach without Sabot";
  return line;
}

}  // namespace sabot::real
