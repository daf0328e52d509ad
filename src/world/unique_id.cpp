// Byte layout of the id; fields are copied one by one, so padding never leaks and layouts stay
// fixed.
#include "world/unique_id.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/random.hpp"

namespace sabot::world {
namespace {

constexpr std::string_view kFamilyMagic = "SABOT-HOST-ID/";
constexpr std::string_view kMagic = "SABOT-HOST-ID/1";  // the digit is the format of the rest
constexpr std::size_t kMagicBytes = 16;
static_assert(kMagic.size() <= kMagicBytes);
constexpr std::size_t kChecksumOffset = kUniqueIdBytes - sizeof(std::uint64_t);

class Cursor {
 public:
  explicit Cursor(char* at) : at_(at) {}
  template <typename T>
  void put(const T& value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  template <typename T>
  void take(T& value) {
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
  }

 private:
  char* at_;
};

std::uint64_t checksum(const UniqueId& id) {
  return hash_text(std::string_view(id.bytes.data(), kChecksumOffset));
}

// NVIDIA's bootstrap handle: a 64-bit magic, then a socket address.
bool looks_like_nvidia(const UniqueId& id) {
  std::uint64_t magic = 0;
  std::uint16_t family = 0;
  std::memcpy(&magic, id.bytes.data(), sizeof magic);
  std::memcpy(&family, id.bytes.data() + sizeof magic, sizeof family);
  return magic != 0 && (family == AF_INET || family == AF_INET6);
}

Error foreign_id(const UniqueId& id) {
  const bool zeros = std::all_of(id.bytes.begin(), id.bytes.end(), [](char c) { return c == 0; });
  if (zeros) {
    return Error(
        Code::kInvalidArgument,
        "the unique id is all zeros; pass the id that ncclGetUniqueId filled in on one rank, "
        "and send all 128 bytes of it to the others");
  }
  if (looks_like_nvidia(id)) {
    return Error(Code::kInvalidUsage,
                 "mixing engines: this unique id was made by NVIDIA's NCCL, but this process runs "
                 "Sabot's host engine; start every rank with the same engine");
  }
  const std::string_view start(id.bytes.data(), kFamilyMagic.size());
  if (start == kFamilyMagic) {
    return Error(
        Code::kInvalidUsage,
        "this unique id was made by another release of Sabot's host engine; start every rank "
        "with the same release");
  }
  return Error(
      Code::kInvalidUsage,
      "mixing engines: this unique id was not made by Sabot's host engine; pass the id that "
      "ncclGetUniqueId of this same library returned");
}

}  // namespace

UniqueId write_id(const IdContent& content) {
  UniqueId id;
  std::memcpy(id.bytes.data(), kMagic.data(), kMagic.size());
  Cursor cursor(id.bytes.data() + kMagicBytes);
  cursor.put(content.api_version);
  cursor.put(content.creator_pid);
  cursor.put(content.world);
  cursor.put(static_cast<std::uint16_t>(content.address.is_ipv6 ? 1 : 0));
  cursor.put(content.address.port);
  cursor.put(content.address.scope);
  cursor.put(content.address.bytes);
  const std::uint64_t sum = checksum(id);
  std::memcpy(id.bytes.data() + kChecksumOffset, &sum, sizeof sum);
  return id;
}

Result<IdContent> read_id(const UniqueId& id) {
  const std::string_view start(id.bytes.data(), kMagic.size());
  if (start != kMagic) return foreign_id(id);
  std::uint64_t sum = 0;
  std::memcpy(&sum, id.bytes.data() + kChecksumOffset, sizeof sum);
  if (sum != checksum(id)) {
    return Error(
        Code::kInvalidArgument,
        "the unique id arrived damaged; send all 128 bytes, not a C string: the id contains "
        "zero bytes");
  }
  UniqueId copy = id;
  Cursor cursor(copy.bytes.data() + kMagicBytes);
  IdContent content;
  std::uint16_t family = 0;
  cursor.take(content.api_version);
  cursor.take(content.creator_pid);
  cursor.take(content.world);
  cursor.take(family);
  cursor.take(content.address.port);
  cursor.take(content.address.scope);
  cursor.take(content.address.bytes);
  content.address.is_ipv6 = family != 0;
  return content;
}

}  // namespace sabot::world
