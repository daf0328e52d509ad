// Seeded randomness that is the same on every machine and in every run.
//
// mix() is a stateless hash (the finaliser of splitmix64): a decision that depends only on its
// inputs needs no shared generator, so that ranks and restarts agree without talking. Random is a
// small stream generator over the same function, for tests and for generated inputs.
#pragma once

#include <cstdint>
#include <string_view>

namespace sabot {

constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

// FNV-1a, then mixed: stable across builds, unlike std::hash.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix(hash);
}

// Uniform in [0, 1): the top 53 bits.
constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

class Random {
  __extension__ using Wide = unsigned __int128;

 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t next() { return mix(state_++); }
  // Uniform in [0, bound); bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace sabot
