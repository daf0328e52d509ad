// Bytes that one rank moves, by collective, over a constant bandwidth.
#include "comm/estimate.hpp"

#include "base/datatype.hpp"

namespace sabot::comm {
namespace {

constexpr double kWaitUs = 0.5;
constexpr double kBytesPerUs = 6000;  // 6 GB/s

// Copies of `count` elements that pass through one rank.
double passes(const host::Operation& operation, double ranks) {
  if (operation.kind != host::Operation::Kind::kCollective) return 1;
  switch (operation.collective) {
    case schedule::Collective::kAllReduce: return 2 * (ranks - 1) / ranks + 1;
    case schedule::Collective::kBroadcast:
    case schedule::Collective::kReduce: return 2;
    case schedule::Collective::kAllGather:
    case schedule::Collective::kReduceScatter:
    case schedule::Collective::kAllToAll:
    case schedule::Collective::kGather:
    case schedule::Collective::kScatter: return ranks;
  }
  return 1;
}

}  // namespace

float estimate_us(Batch& batch) {
  const double ranks = batch.comm().seat.ranks;
  double total = 0;
  for (const Issued& issued : batch.operations()) {
    const host::Operation& operation = issued.checked.operation;
    const double bytes =
        static_cast<double>(operation.count) * static_cast<double>(bytes_of(operation.type));
    total += kWaitUs * ranks + passes(operation, ranks) * bytes / kBytesPerUs;
  }
  return static_cast<float>(total);
}

}  // namespace sabot::comm
