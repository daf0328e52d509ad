// A small world for the tests of this module: the ranks of one communicator, run as threads.
//
// The reference for every result is computed with the module's own reduce() over the inputs of all
// ranks in rank order, so results are compared bit by bit for every type; reduce() itself has its
// own tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "engine/host/endpoint.hpp"
#include "engine/host/reduce.hpp"
#include "engine/host/signature.hpp"
#include "link/fake_liveness.hpp"

namespace sabot::host {

using Bytes = std::vector<std::byte>;

// Slots so small that a few kilobytes take many chunks.
inline link::Geometry small_geometry(int ranks, int cpus) {
  link::Geometry geometry = link::Geometry::for_ranks(ranks, cpus);
  geometry.slots = 4;
  geometry.slot_bytes = 4096;
  geometry.channel_slots = 2;
  geometry.channel_slot_bytes = 4096;
  return geometry;
}

class Ranks {
 public:
  explicit Ranks(int world, Options options = {})
      : Ranks(link::Geometry::for_ranks(world, 2), options) {}
  explicit Ranks(const link::Geometry& geometry, Options options = {}) {
    segment_ = std::shared_ptr<link::Segment>(std::move(link::Segment::create(geometry)).value());
    for (int r = 0; r < segment_->ranks(); ++r)
      ends_.push_back(std::move(Endpoint::open(segment_, r, &liveness, options)).value());
  }

  int world() const { return segment_->ranks(); }
  Endpoint& operator[](int rank) { return *ends_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<link::Segment> segment() { return segment_; }
  void close(int rank) { ends_[static_cast<std::size_t>(rank)].reset(); }

  // Runs body(rank) on a thread for each rank.
  void each(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < world(); ++r) threads.emplace_back([&body, r] { body(r); });
    for (std::thread& thread : threads) thread.join();
  }

  link::FakeLiveness liveness;

 private:
  std::shared_ptr<link::Segment> segment_;
  std::vector<std::unique_ptr<Endpoint>> ends_;
};

// One collective on all ranks: inputs, where the results have to be, and what they have to be.
class Trial {
 public:
  Trial(Operation operation, int world, bool in_place, std::uint64_t seed)
      : operation_(operation), world_(world), in_place_(in_place) {
    for (int r = 0; r < world; ++r) {
      const schedule::Request request = request_of(operation, r, world);
      const std::size_t size = bytes_of(operation.type);
      Bytes input(schedule::input_elements(request) * size);
      Random random(mix(seed, static_cast<std::uint64_t>(r)));
      for (std::byte& byte : input) byte = static_cast<std::byte>(random.next() & 0xff);
      inputs_.push_back(input);
      outputs_.emplace_back(schedule::output_elements(request) * size, std::byte{0xAB});
      premul_.push_back(random.next());
    }
    if (in_place) alias();
  }

  Operation operation(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    Operation mine = operation_;
    mine.premul_bits = premul_[r];
    mine.input = in_place_ ? memory_[r].data() + input_at_[r] : inputs_[r].data();
    mine.output = in_place_ ? memory_[r].data() + output_at_[r] : outputs_[r].data();
    return mine;
  }

  // Empty where the rank's output is right, else what is wrong.
  std::string verdict(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    const Bytes expected = reference(rank);
    const std::byte* got = in_place_ ? memory_[r].data() + output_at_[r] : outputs_[r].data();
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (got[i] != expected[i])
        return "rank " + std::to_string(rank) + ": byte " + std::to_string(i) + " of " +
               std::to_string(expected.size()) + " differs after " + describe(operation_) + " on " +
               std::to_string(world_) + " ranks" + (in_place_ ? " in place" : "");
    return "";
  }

 private:
  void alias() {
    for (std::size_t r = 0; r < inputs_.size(); ++r) {
      const std::size_t inputs = inputs_[r].size();
      const std::size_t outputs = outputs_[r].size();
      const std::size_t block = r * operation_.count * bytes_of(operation_.type);
      input_at_.push_back(outputs > inputs && inputs > 0 ? block : 0);
      output_at_.push_back(inputs > outputs && outputs > 0 ? block : 0);
      memory_.emplace_back(std::max(inputs, outputs) + 1);
      if (inputs > 0) std::memcpy(memory_[r].data() + input_at_[r], inputs_[r].data(), inputs);
    }
  }

  Bytes reduced(std::size_t begin, std::size_t count) const {
    const std::size_t size = bytes_of(operation_.type);
    std::vector<Bytes> scaled = inputs_;
    std::vector<const void*> sources;
    for (std::size_t r = 0; r < inputs_.size(); ++r) {
      if (operation_.op == ReduceOp::kPreMulSum)
        scale(operation_.type, scaled[r].data(), inputs_[r].data(), scaled[r].size() / size,
              &premul_[r]);
      sources.push_back(scaled[r].data() + begin * size);
    }
    Bytes result(count * size);
    const Reduction reduction{operation_.type, operation_.op, static_cast<std::uint32_t>(world_),
                              Stores::kCached};
    if (count > 0) reduce(reduction, result.data(), sources, count);
    return result;
  }

  Bytes reference(int rank) const {
    using schedule::Collective;
    const auto r = static_cast<std::size_t>(rank);
    const auto root = static_cast<std::size_t>(operation_.root);
    const std::size_t count = operation_.count;
    const std::size_t block = count * bytes_of(operation_.type);
    Bytes result;
    const auto append = [&](const Bytes& from, std::size_t begin) {
      result.insert(result.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
                    from.begin() + static_cast<std::ptrdiff_t>(begin + block));
    };
    switch (operation_.collective) {
      case Collective::kAllReduce: return reduced(0, count);
      case Collective::kReduce: return r == root ? reduced(0, count) : result;
      case Collective::kReduceScatter: return reduced(r * count, count);
      case Collective::kBroadcast: append(inputs_[root], 0); return result;
      case Collective::kScatter: append(inputs_[root], r * block); return result;
      case Collective::kAllToAll:
        for (const Bytes& input : inputs_) append(input, r * block);
        return result;
      case Collective::kGather:
        if (r != root) return result;
        [[fallthrough]];
      case Collective::kAllGather:
        for (const Bytes& input : inputs_) append(input, 0);
        return result;
    }
    return result;
  }

  Operation operation_;
  int world_;
  bool in_place_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> outputs_;
  std::vector<Bytes> memory_;
  std::vector<std::size_t> input_at_;
  std::vector<std::size_t> output_at_;
  std::vector<std::uint64_t> premul_;
};

}  // namespace sabot::host
