// The machine that runs schedules on symbols; see check.hpp for what it proves.
#include "schedule/check.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/print.hpp"

namespace sabot::schedule {
namespace {

// The value of one element: which input elements it combines, in order.
struct Symbol {
  std::vector<std::uint32_t>
      terms;  // rank × 2^24 + index in that rank's input; empty = never written
  bool finished = false;
  bool operator==(const Symbol&) const = default;
};
using Symbols = std::vector<Symbol>;

struct Message {
  std::uint64_t number = 0;
  bool exists = false;
  RankMask unread = 0;
  RankMask readers = 0;
  Symbols content;
};

struct Rank {
  Request request;
  Program program;
  Symbols memory;              // both buffers, input first unless they alias
  std::uint64_t input_at = 0;  // where they begin in it
  std::uint64_t output_at = 0;
  std::vector<Message> slots;
  std::vector<std::uint64_t> taken_next;  // per writer: lowest number that may be taken now
  std::uint64_t put_next = 0;
  Step step;
  bool has_step = false;
  bool ended = false;
  std::uint64_t steps = 0;
};

class Machine {
 public:
  Machine(const Request& request, const Plan& plan, const CheckOptions& options)
      : options_(options), slot_elements_(options.slot_bytes / bytes_of(request.type)) {
    ranks_.resize(static_cast<std::size_t>(request.world));
    for (int r = 0; r < request.world; ++r)
      open(ranks_[static_cast<std::size_t>(r)], request, plan, r);
  }

  Status run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Rank& rank : ranks_) moved |= SABOT_TRY(advance(rank));
    }
    for (Rank& rank : ranks_)
      if (!rank.ended) return broken(rank, "waits for ever");
    for (Rank& rank : ranks_) {
      SABOT_TRY(check_left_over(rank));
      SABOT_TRY(check_output(rank));
    }
    return {};
  }

 private:
  void open(Rank& rank, const Request& request, const Plan& plan, int number) {
    rank.request = request;
    rank.request.rank = number;
    rank.program = Program(rank.request, plan);
    rank.slots.resize(options_.slots);
    rank.taken_next.resize(ranks_.size());
    const std::uint64_t inputs = input_elements(rank.request);
    const std::uint64_t outputs = output_elements(rank.request);
    const auto block = static_cast<std::uint64_t>(number) * request.count;
    if (!options_.in_place) {
      rank.output_at = inputs;
      rank.memory.resize(inputs + outputs);
    } else {
      rank.memory.resize(std::max(inputs, outputs));
      if (outputs > inputs && inputs > 0) rank.input_at = block;
      if (inputs > outputs && outputs > 0) rank.output_at = block;
    }
    for (std::uint64_t i = 0; i < inputs; ++i)
      rank.memory[rank.input_at + i].terms = {term(number, i)};
  }

  static std::uint32_t term(int rank, std::uint64_t index) {
    return (static_cast<std::uint32_t>(rank) << 24) | static_cast<std::uint32_t>(index);
  }

  static Error broken(const Rank& rank, const std::string& what) {
    return Error(Code::kInternal, "rank " + std::to_string(rank.request.rank) + ", step " +
                                      std::to_string(rank.steps) + " (" + describe(rank.step) +
                                      "): " + what);
  }

  Result<bool> advance(Rank& rank) {
    bool moved = false;
    while (!rank.ended) {
      if (!rank.has_step) {
        rank.has_step = rank.program.next(rank.step);
        rank.ended = !rank.has_step;
        ++rank.steps;
        moved = true;
        continue;
      }
      if (!SABOT_TRY(try_step(rank))) return moved;
      rank.has_step = false;
      moved = true;
    }
    return moved;
  }

  Result<bool> try_step(Rank& rank) {
    switch (rank.step.kind) {
      case Step::Kind::kPut: return try_put(rank);
      case Step::Kind::kGet: return try_get(rank);
      case Step::Kind::kReduce: return try_reduce(rank);
      case Step::Kind::kCopy: {
        const auto values = SABOT_TRY(load(rank, rank.step.from_offset, rank.step.length(0)));
        SABOT_TRY(store(rank, rank.step.to_offset, values));
        return true;
      }
    }
    return broken(rank, "is of no known kind");
  }

  Result<Symbols> load(const Rank& rank, std::uint64_t offset, std::uint64_t count) const {
    const bool input = rank.step.from == Buffer::kInput;
    const std::uint64_t size = input ? input_elements(rank.request) : output_elements(rank.request);
    if (rank.step.from == Buffer::kNone || offset + count > size)
      return broken(rank, "reads outside its buffer");
    const auto begin = rank.memory.begin() + static_cast<std::ptrdiff_t>(
                                                 (input ? rank.input_at : rank.output_at) + offset);
    return Symbols(begin, begin + static_cast<std::ptrdiff_t>(count));
  }

  static Status store(Rank& rank, std::uint64_t offset, const Symbols& values) {
    if (rank.step.to != Buffer::kOutput || offset + values.size() > output_elements(rank.request))
      return broken(rank, "writes outside its output");
    std::copy(values.begin(), values.end(),
              rank.memory.begin() + static_cast<std::ptrdiff_t>(rank.output_at + offset));
    return {};
  }

  // A free slot for the next message, or nothing while the slot's readers are not done.
  Result<Message*> free_slot(Rank& rank, std::uint64_t number) {
    if (number < rank.put_next) return broken(rank, "puts messages out of order");
    if (number >= rank.program.message_count())
      return broken(rank, "puts more messages than it said");
    if ((rank.step.readers & (RankMask{1} << rank.request.rank)) != 0)
      return broken(rank, "puts a message for itself");
    Message& slot = rank.slots[number % options_.slots];
    if (slot.unread != 0) return static_cast<Message*>(nullptr);
    rank.put_next = number + 1;
    slot = Message{number, true, rank.step.readers, rank.step.readers, {}};
    return &slot;
  }

  Result<bool> try_put(Rank& rank) {
    const Step& step = rank.step;
    if (step.extent > slot_elements_) return broken(rank, "does not fit into a slot");
    if (step.readers == 0) return broken(rank, "puts for nobody");
    Message* slot = SABOT_TRY(free_slot(rank, step.message));
    if (slot == nullptr) return false;
    slot->content.resize(step.extent);
    for (std::uint64_t i = 0; i < step.parts; ++i) {
      if (static_cast<std::int64_t>(i) == step.skip || step.length(i) == 0) continue;
      const auto values = SABOT_TRY(load(rank, step.from_offset + i * step.stride, step.length(i)));
      std::copy(values.begin(), values.end(),
                slot->content.begin() + static_cast<std::ptrdiff_t>(i * step.part));
    }
    return true;
  }

  bool arrived(const Rank& rank, std::uint64_t number) const {
    for (std::size_t s = 0; s < ranks_.size(); ++s) {
      const bool wanted = (rank.step.sources >> s & 1) != 0;
      if (!wanted || static_cast<int>(s) == rank.request.rank) continue;
      const Message& slot = ranks_[s].slots[number % options_.slots];
      if (!slot.exists || slot.number != number) return false;
    }
    return true;
  }

  Result<Symbols> take(Rank& rank, std::size_t source, std::uint64_t count) {
    const Step& step = rank.step;
    Message& slot = ranks_[source].slots[step.message % options_.slots];
    const RankMask me = RankMask{1} << rank.request.rank;
    if ((slot.readers & me) == 0) return broken(rank, "takes what was not put for it");
    if ((slot.unread & me) == 0) return broken(rank, "takes a message twice");
    if (step.message < rank.taken_next[source]) return broken(rank, "takes out of order");
    if (step.message_offset + count > slot.content.size())
      return broken(rank, "reads past the end of a message");
    slot.unread &= ~me;
    rank.taken_next[source] = step.message + 1;
    const auto begin = slot.content.begin() + static_cast<std::ptrdiff_t>(step.message_offset);
    return Symbols(begin, begin + static_cast<std::ptrdiff_t>(count));
  }

  Result<bool> try_get(Rank& rank) {
    const Step& step = rank.step;
    if (!arrived(rank, step.message)) return false;
    for (std::size_t s = 0; s < ranks_.size(); ++s) {
      if ((step.sources >> s & 1) == 0) continue;
      const std::uint64_t index = step.parts > 1 ? s : 0;
      const auto values = SABOT_TRY(take(rank, s, step.length(index)));
      if (values.empty()) continue;
      SABOT_TRY(store(rank, step.to_offset + index * step.stride, values));
    }
    return true;
  }

  Result<bool> try_reduce(Rank& rank) {
    const Step& step = rank.step;
    if (!arrived(rank, step.message)) return false;
    Message* slot = nullptr;
    if (step.readers != 0) {
      if (step.length(0) > slot_elements_) return broken(rank, "does not fit into a slot");
      slot = SABOT_TRY(free_slot(rank, step.put_message));
      if (slot == nullptr) return false;
    }
    Symbols result(step.length(0));
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::size_t s = (static_cast<std::size_t>(step.first_source) + i) % ranks_.size();
      if ((step.sources >> s & 1) == 0) continue;
      const bool mine = static_cast<int>(s) == rank.request.rank;
      const auto values = mine ? SABOT_TRY(load(rank, step.from_offset, result.size()))
                               : SABOT_TRY(take(rank, s, result.size()));
      for (std::size_t e = 0; e < result.size(); ++e) {
        if (values[e].terms.empty()) return broken(rank, "combines what was never written");
        result[e].terms.insert(result[e].terms.end(), values[e].terms.begin(),
                               values[e].terms.end());
      }
    }
    for (Symbol& symbol : result) symbol.finished = step.finish;
    if (step.to != Buffer::kNone) SABOT_TRY(store(rank, step.to_offset, result));
    if (slot != nullptr) slot->content = std::move(result);
    return true;
  }

  Status check_left_over(const Rank& rank) const {
    for (const Message& slot : rank.slots)
      if (slot.unread != 0)
        return broken(rank, "leaves message " + std::to_string(slot.number) + " unread");
    return {};
  }

  // The element of whose input an output element must be, where nothing is reduced.
  static std::uint32_t moved_term(const Request& request, std::uint64_t index) {
    const std::uint64_t block = request.count == 0 ? 0 : index / request.count;
    const std::uint64_t within = request.count == 0 ? 0 : index % request.count;
    const auto mine = static_cast<std::uint64_t>(request.rank) * request.count;
    switch (request.collective) {
      case Collective::kBroadcast: return term(request.root, index);
      case Collective::kScatter: return term(request.root, mine + index);
      case Collective::kAllToAll: return term(static_cast<int>(block), mine + within);
      default: return term(static_cast<int>(block), within);
    }
  }

  Status check_output(const Rank& rank) const {
    const Request& request = rank.request;
    for (std::uint64_t i = 0; i < output_elements(request); ++i) {
      const Symbol& symbol = rank.memory[rank.output_at + i];
      const std::string where = "output[" + std::to_string(i) + "] ";
      if (!has_reduction(request.collective)) {
        if (symbol.terms != std::vector<std::uint32_t>{moved_term(request, i)})
          return broken(rank, where + "is not the element it has to be");
        continue;
      }
      const bool scattered = request.collective == Collective::kReduceScatter;
      const std::uint64_t at =
          scattered ? static_cast<std::uint64_t>(request.rank) * request.count + i : i;
      std::vector<std::uint32_t> expected;
      for (int r = 0; r < request.world; ++r) expected.push_back(term(r, at));
      std::vector<std::uint32_t> sorted = symbol.terms;
      std::sort(sorted.begin(), sorted.end());
      if (sorted != expected) return broken(rank, where + "is not every rank's element, once each");
      if (!symbol.finished) return broken(rank, where + "is not finished");
      const bool same = request.collective != Collective::kAllReduce ||
                        symbol == ranks_[0].memory[ranks_[0].output_at + i];
      if (!same) return broken(rank, where + "is reduced in another order than on rank 0");
    }
    return {};
  }

  CheckOptions options_;
  std::uint64_t slot_elements_;
  std::vector<Rank> ranks_;
};

}  // namespace

Status check(const Request& request, const Plan& plan, const CheckOptions& options) {
  return Machine(request, plan, options).run();
}

}  // namespace sabot::schedule
