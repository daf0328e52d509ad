// What faults do on a real GPU's streams, checked through the driver alone: no PyTorch, no NCCL.
//
//     stream_effects [DEVICE]
//
// Each check prints a line with what it measured; the exit status is 0 only if all hold. The
// reference for changed elements is the code that changes them on the host. Times are bounds that
// a loaded machine keeps, and the figures say how near they are.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/random.hpp"
#include "checks.hpp"
#include "driver/cuda_driver.hpp"
#include "driver/gpu.hpp"
#include "layer/effects/cuda_effects.hpp"
#include "machine.hpp"

namespace sabot::gpu_test {
namespace {

using layer::CorruptionPlan;
using layer::CudaEffects;
using layer::Hold;

constexpr std::uint64_t kStillHeld_ns = 20 * kMillisecond;  // how long a hold is watched holding

double milliseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

// One process with its effects.
struct Bench {
  Machine& machine;
  int device;
  bool has_memory_operations = true;
  std::unique_ptr<CudaEffects> effects = std::make_unique<CudaEffects>(
      [this] { return open(); }, [this](const void*) { return Result<int>(device); });

  Result<std::unique_ptr<driver::Driver>> open() const {
    driver::CudaFunctions functions = SABOT_TRY(driver::cuda_functions());
    if (!has_memory_operations)
      functions.cuStreamWaitValue32 = functions.cuStreamWriteValue32 = nullptr;
    return std::unique_ptr<driver::Driver>(std::make_unique<driver::CudaDriver>(functions));
  }
  static abi::Call call_on(Stream stream) {
    abi::Call call;
    call.stream = stream;
    return call;
  }
  // A hold on the stream, or a failure of the check and null.
  std::shared_ptr<Hold> hold(Findings& findings, Stream stream, std::uint64_t limit_ns) {
    const abi::Call call = call_on(stream);
    Result<Hold::Word> word = effects->make_word(call);
    findings.expect(word.ok(), word.ok() ? "" : word.error().message());
    if (!word.ok()) return nullptr;
    auto hold = std::make_shared<Hold>(*word, nullptr, layer::FaultId{}, limit_ns);
    const Status put = effects->hold(call, hold);
    findings.expect(put.ok(), put.ok() ? "" : put.error().message());
    return put.ok() ? hold : nullptr;
  }
  std::size_t gates_free() {
    auto usage = effects->usage();
    return usage.ok() ? usage->gates_free : 0;
  }
};

// --- Holds ---------------------------------------------------------------------------------------

void holds_until_released(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  volatile std::uint32_t* done = machine.word();
  std::vector<std::uint64_t> calls;
  std::vector<std::uint64_t> releases;
  for (std::uint32_t round = 1; round <= 200; ++round) {
    const std::uint64_t before = now_ns();
    const auto hold = bench.hold(findings, stream, 0);
    calls.push_back(now_ns() - before);
    if (hold == nullptr) return;
    machine.put_write(stream, done, round);
    const bool is_early =
        comes_true([&] { return *done == round; }, round == 1 ? kStillHeld_ns : kMillisecond / 2);
    findings.expect(!is_early, "the stream went on by itself");
    const std::uint64_t released = now_ns();
    hold->end(Hold::kLetGo);
    findings.expect(comes_true([&] { return *done == round; }), "the stream did not go on");
    releases.push_back(now_ns() - released);
  }
  std::sort(releases.begin(), releases.end());
  std::sort(calls.begin(), calls.end());
  findings.expect(releases[198] < kMillisecond, "a release took more than 1 ms");
  findings.figure("call p50", static_cast<double>(calls[100]) / 1e3, "us");
  findings.figure("release p50", static_cast<double>(releases[100]) / 1e3, "us");
  findings.figure("p99", static_cast<double>(releases[198]) / 1e3, "us");
  machine.destroy(stream);
}

// The stream arrives 100 ms after the call, because another hold is before it.
void limit_counts_from_arrival(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  volatile std::uint32_t* done = machine.word();
  const auto busy = bench.hold(findings, stream, 0);
  const auto hold = bench.hold(findings, stream, 50 * kMillisecond);
  if (busy == nullptr || hold == nullptr) return;
  machine.put_write(stream, done, 1);
  findings.expect(!comes_true([&] { return *done == 1; }, 100 * kMillisecond),
                  "the limit counted from the call");
  const std::uint64_t arrived = now_ns();
  busy->end(Hold::kLetGo);
  findings.expect(comes_true([&] { return *done == 1; }), "the stream did not go on");
  const double took = milliseconds(now_ns() - arrived);
  findings.figure("a limit of 50 ms took", took, "ms");
  findings.expect(took >= 49.9 && took < 55, "the limit was not kept");
  findings.expect(comes_true([&] { return hold->is_over(); }), "the hold was never over");
  machine.destroy(stream);
}

// Every other stream of many is held; all go on, in the order in which they are released, whatever
// queues they share. How many streams without a hold are stopped all the same is the hardware's.
void streams_go_on_in_any_order(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  constexpr std::uint32_t kStreams = 64;
  std::vector<Stream> streams;
  std::vector<volatile std::uint32_t*> done;
  std::vector<std::shared_ptr<Hold>> holds;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    streams.push_back(machine.stream());
    done.push_back(machine.word());
  }
  for (std::uint32_t i = 0; i < kStreams; i += 2)
    holds.push_back(bench.hold(findings, streams[i], 0));
  for (std::uint32_t i = 0; i < kStreams; ++i) machine.put_write(streams[i], done[i], 1);
  std::uint32_t free_done = 0;
  comes_true(
      [&] {
        free_done = 0;
        for (std::uint32_t i = 1; i < kStreams; i += 2) free_done += *done[i];
        return free_done == kStreams / 2;
      },
      200 * kMillisecond);
  std::uint32_t held_done = 0;
  for (std::uint32_t i = 0; i < kStreams; i += 2) held_done += *done[i];
  findings.expect(held_done == 0, "a held stream went on");
  for (std::size_t i = holds.size(); i > 0; --i)
    if (holds[i - 1] != nullptr) holds[i - 1]->end(Hold::kLetGo);
  for (std::uint32_t i = 0; i < kStreams; ++i)
    findings.expect(comes_true([&] { return *done[i] == 1; }), "a stream never went on");
  findings.figure("streams beside 32 held that went on at once", free_done, "of 32");
  for (const Stream stream : streams) machine.destroy(stream);
}

// Streams share hardware queues: how many of 16 others are stopped by so many that are held. What
// must hold is that all go on once the holds are released.
void held_streams_stop_others(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  for (const std::size_t held_count : {1U, 2U, 4U, 8U, 16U}) {
    std::vector<Stream> held(held_count);
    std::vector<Stream> others(16);
    for (Stream& stream : held) stream = machine.stream();
    for (Stream& stream : others) stream = machine.stream();
    std::vector<std::shared_ptr<Hold>> holds;
    for (const Stream stream : held) holds.push_back(bench.hold(findings, stream, 0));
    std::vector<volatile std::uint32_t*> done;
    for (const Stream stream : others) {
      done.push_back(machine.word());
      machine.put_write(stream, done.back(), 1);
    }
    const auto done_count = [&] {
      return std::count_if(done.begin(), done.end(), [](auto* word) { return *word == 1; });
    };
    comes_true([&] { return done_count() == 16; }, 50 * kMillisecond);
    const auto stopped = static_cast<double>(16 - done_count());
    findings.figure(("held " + std::to_string(held_count) + ": stopped").c_str(), stopped, "");
    for (const auto& hold : holds)
      if (hold != nullptr) hold->end(Hold::kLetGo);
    findings.expect(comes_true([&] { return done_count() == 16; }), "a stream never went on");
    for (const Stream stream : others) machine.destroy(stream);
    for (const Stream stream : held) machine.destroy(stream);
  }
}

void legacy_stream_of_the_device(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const auto hold = bench.hold(findings, nullptr, 30 * kMillisecond);
  if (hold == nullptr) return;
  const std::uint64_t before = now_ns();
  machine.wait_for(nullptr);
  const double took = milliseconds(now_ns() - before);
  findings.figure("30 ms took", took, "ms");
  findings.expect(took > 29 && took < 40, "the legacy stream was not held for 30 ms");
}

void thousands_of_holds_leave_nothing(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  const auto is_quiet = [&] {
    auto usage = bench.effects->usage();
    return usage.ok() && !usage->is_watching;
  };
  findings.expect(comes_true(is_quiet), "an earlier hold is not over");
  const std::size_t cells = bench.gates_free();
  const std::size_t memory = machine.free_bytes();
  const std::uint64_t before = now_ns();
  for (int i = 0; i < 5000; ++i) {
    const auto hold = bench.hold(findings, stream, 0);
    if (hold == nullptr) return;
    hold->end(Hold::kLetGo);
    if (i % 500 == 499) {
      machine.wait_for(stream);
      comes_true([&] { return bench.gates_free() + 1 >= cells; });
    }
  }
  machine.wait_for(stream);
  const double took = milliseconds(now_ns() - before);
  findings.expect(comes_true([&] { return bench.gates_free() == cells; }), "cells were lost");
  findings.expect(machine.free_bytes() == memory, "GPU memory was lost");
  findings.expect(comes_true(is_quiet), "the thread still runs although nothing is held");
  findings.figure("5000 holds", took, "ms");
  machine.destroy(stream);
}

// --- Capture -------------------------------------------------------------------------------------

void captured_hold_acts_at_each_replay(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  volatile std::uint32_t* done = machine.word();
  const std::size_t cells = bench.gates_free();
  machine.begin_capture(stream);
  auto hold = bench.hold(findings, stream, 30 * kMillisecond);
  auto is_captured = bench.effects->captured(stream);
  findings.expect(is_captured.ok() && *is_captured, "the capture is not seen, or not valid");
  machine.put_write(stream, done, 1);
  const Graph graph = machine.end_capture(stream);
  const Graph executable = machine.instantiate(graph);
  const auto replay_ms = [&] {
    *done = 0;
    const std::uint64_t before = now_ns();
    machine.launch(executable, stream);
    findings.expect(comes_true([&] { return *done == 1; }), "the replay did not end");
    machine.wait_for(stream);
    return milliseconds(now_ns() - before);
  };
  for (int i = 0; i < 3; ++i) {
    const double took = replay_ms();
    findings.expect(took >= 29.9 && took < 35, "a replay was not held for 30 ms");
    findings.figure("replay", took, "ms");
  }
  hold->end(Hold::kEnded);
  const double after = replay_ms();
  findings.figure("once ended", after, "ms");
  findings.expect(after < 5, "a replay was held although the hold had been ended");
  findings.expect(!hold->is_over(), "the hold was over before the graph");
  machine.destroy(graph, executable);
  findings.expect(comes_true([&] { return hold->is_over(); }), "the graph's end was not told");
  hold.reset();
  findings.expect(comes_true([&] { return bench.gates_free() == cells; }), "the cell was lost");
  machine.destroy(stream);
}

void captured_hang_ends_by_a_store(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  volatile std::uint32_t* done = machine.word();
  machine.begin_capture(stream);
  const auto hold = bench.hold(findings, stream, 0);
  machine.put_write(stream, done, 1);
  const Graph graph = machine.end_capture(stream);
  const Graph executable = machine.instantiate(graph);
  machine.launch(executable, stream);
  findings.expect(!comes_true([&] { return *done == 1; }, kStillHeld_ns), "it did not hang");
  const std::uint64_t released = now_ns();
  hold->end(Hold::kAborting);
  findings.expect(comes_true([&] { return *done == 1; }), "the replay did not end");
  const double took = static_cast<double>(now_ns() - released) / 1e3;
  findings.figure("release", took, "us");
  findings.expect(took < 1000, "the release took more than 1 ms");
  machine.wait_for(stream);
  machine.destroy(graph, executable);
  machine.destroy(stream);
}

// The first fault of a process, with all that it loads, while another thread captures globally.
void first_fault_breaks_no_capture(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream captured = machine.stream();
  volatile std::uint32_t* done = machine.word();
  machine.begin_capture(captured);
  std::thread([&] {
    machine.make_current();
    Bench fresh{machine, bench.device};
    const Stream stream = machine.stream();
    const auto hold = fresh.hold(findings, stream, kMillisecond);
    CorruptionPlan plan;
    plan.count = 0;
    findings.expect(fresh.effects->corrupt(Bench::call_on(stream), plan).ok(), "corrupt refused");
    findings.expect(hold != nullptr && comes_true([&] { return hold->is_over(); }),
                    "the hold did not end");
  }).join();
  machine.put_write(captured, done, 1);
  const Graph graph = machine.end_capture(captured);  // ends the program if it was invalidated
  const Graph executable = machine.instantiate(graph);
  machine.launch(executable, captured);
  findings.expect(comes_true([&] { return *done == 1; }), "the captured graph does not work");
  machine.wait_for(captured);
  machine.destroy(graph, executable);
  machine.destroy(captured);
}

// --- The caller's state --------------------------------------------------------------------------

void caller_state_is_unchanged(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  const Address buffer = machine.memory(64);
  const int mode = machine.capture_mode();
  for (const bool has_context : {true, false}) {
    if (!has_context) machine.make_none_current();
    const Context before = machine.current();
    const auto hold = bench.hold(findings, stream, kMillisecond);
    CorruptionPlan plan;
    plan.buffer = reinterpret_cast<void*>(buffer);
    plan.count = 1;
    plan.kept = 1;
    auto undo = bench.effects->corrupt(Bench::call_on(stream), plan);
    findings.expect(undo.ok(), "corrupt was refused");
    if (undo.ok())
      findings.expect(bench.effects->restore(Bench::call_on(stream), std::move(*undo)).ok(),
                      "no restore");
    findings.expect(bench.effects->captured(stream).ok(), "captured was refused");
    findings.expect(bench.effects->captured(nullptr).ok(), "captured(null) was refused");
    findings.expect(machine.current() == before, "another context is current");
    findings.expect(machine.capture_mode() == mode, "another capture mode is set");
    machine.make_current();
    machine.wait_for(stream);
  }
  machine.free(buffer);
  machine.destroy(stream);
}

// --- Corruption ----------------------------------------------------------------------------------

// A plan with every kind of change, as corruption_of makes them: places anywhere, masks of the
// type.
CorruptionPlan plan_for(DataType type, bool is_scale, Random& random, std::uint64_t elements) {
  CorruptionPlan plan;
  plan.datatype = type;
  plan.operation = is_scale ? CorruptionPlan::Operation::kScale : CorruptionPlan::Operation::kMask;
  plan.factor = is_scale ? -2.5 : 1;
  plan.count = 64;
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - 8 * bytes_of(type));
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    plan.places[i].element = i * (elements / plan.count) + random.below(elements / plan.count);
    plan.places[i].mask = i % 3 == 0 ? 0 : ones;
    plan.places[i].flip = random.next() & ones;
  }
  plan.kept = random.next();
  return plan;
}

void corrupts_like_the_host(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  constexpr std::uint64_t kElements = 4096;
  Random random(7);
  for (int type_number = 0; type_number < kDataTypeCount; ++type_number) {
    const auto type = static_cast<DataType>(type_number);
    const std::string name(name_of(type));
    const std::size_t bytes = kElements * bytes_of(type);
    // One byte off: the buffer of a slice need not be aligned to its type.
    const Address memory = machine.memory(bytes + 1);
    for (const bool is_scale : {false, true}) {
      for (const std::uint64_t offset : {0, 1}) {
        std::vector<std::byte> before(bytes);
        for (std::byte& byte : before) byte = static_cast<std::byte>(random.below(256));
        CorruptionPlan plan = plan_for(type, is_scale, random, kElements);
        machine.write(memory + offset, before.data(), bytes);

        std::vector<std::byte> expected = before;
        plan.buffer = expected.data();
        const layer::OldBits old = layer::apply(plan);
        std::vector<std::byte> expected_after = expected;
        plan.buffer = expected_after.data();
        layer::restore(plan, old);

        plan.buffer = reinterpret_cast<void*>(memory + offset);
        const abi::Call call = Bench::call_on(stream);
        auto undo = bench.effects->corrupt(call, plan);
        findings.expect(undo.ok(), name + ": " + (undo.ok() ? "" : undo.error().message()));
        if (!undo.ok()) continue;
        machine.wait_for(stream);
        std::vector<std::byte> seen(bytes);
        machine.read(seen.data(), memory + offset, bytes);
        findings.expect(seen == expected,
                        name + (is_scale ? " scaled" : " masked") + " differs from the host's");
        findings.expect(seen != before, name + " is unchanged");
        findings.expect(bench.effects->restore(call, std::move(*undo)).ok(), name + ": restore");
        machine.wait_for(stream);
        machine.read(seen.data(), memory + offset, bytes);
        findings.expect(seen == expected_after, name + " is not as before where it should be");
      }
    }
    machine.free(memory);
  }
  machine.destroy(stream);
}

// A graph: corrupt, the application's copy of the data, restore. Each replay does all three.
void captured_corruption_acts_at_each_replay(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  const Stream stream = machine.stream();
  const Address memory = machine.memory(64);
  CorruptionPlan plan;
  plan.datatype = DataType::kInt32;
  plan.buffer = reinterpret_cast<void*>(memory);
  plan.count = 1;
  plan.places[0] = {3, ~0U, 1};
  plan.kept = 1;
  volatile std::uint32_t* seen = machine.word();
  const abi::Call call = Bench::call_on(stream);
  machine.begin_capture(stream);
  auto undo = bench.effects->corrupt(call, plan);
  machine.put_copy(stream, reinterpret_cast<Address>(seen), memory, 64);
  findings.expect(undo.ok() && bench.effects->restore(call, std::move(*undo)).ok(), "refused");
  const Graph graph = machine.end_capture(stream);
  const Graph executable = machine.instantiate(graph);
  for (std::uint32_t value : {8U, 41U}) {
    std::uint32_t data[16] = {};
    data[3] = value;
    machine.write(memory, data, sizeof data);
    machine.launch(executable, stream);
    machine.wait_for(stream);
    findings.expect(seen[3] == (value ^ 1U), "the copy has the old value");
    machine.read(data, memory, sizeof data);
    findings.expect(data[3] == value, "the old value did not come back");
  }
  machine.destroy(graph, executable);
  machine.free(memory);
  machine.destroy(stream);
}

// What B16 is about: what of a first fault waits for a kernel that runs. A hold must not, since the
// kernel may be waiting for what the caller does next; loading does, which is why it is done early.
void first_fault_beside_a_spinning_kernel(Bench& bench, Findings& findings) {
  Machine& machine = bench.machine;
  Bench spinning{machine, bench.device, false};
  const Stream busy = machine.stream();
  const Stream stream = machine.stream();
  const auto spin = spinning.hold(findings, busy, 1000 * kMillisecond);
  if (spin == nullptr) return;
  Bench fresh{machine, bench.device};
  std::uint64_t before = now_ns();
  const auto hold = fresh.hold(findings, stream, kMillisecond);
  const double held = milliseconds(now_ns() - before);
  findings.expect(hold != nullptr && comes_true([&] { return hold->is_over(); }), "no hold");
  findings.expect(held < 100, "a first hold waits for running kernels");
  before = now_ns();
  const Status prepared = fresh.effects->prepare(bench.device);
  findings.figure("beside a kernel of 1000 ms: a first hold", held, "ms");
  findings.figure("loading", milliseconds(now_ns() - before), "ms");
  findings.expect(prepared.ok(), prepared.ok() ? "" : prepared.error().message());
  spin->end(Hold::kLetGo);
  machine.wait_for(busy);
  machine.destroy(busy);
  machine.destroy(stream);
}

int run(int device) {
  Machine machine(device);
  bool is_ok = true;
  const auto check = [&](Bench& bench, const char* name, void (*body)(Bench&, Findings&)) {
    Findings findings;
    body(bench, findings);
    is_ok = findings.print(name) && is_ok;
  };
  {
    Findings findings;
    Bench bench{machine, device};
    const std::uint64_t before = now_ns();
    const Status prepared = bench.effects->prepare(device);
    findings.figure("", milliseconds(now_ns() - before), "ms");
    findings.expect(prepared.ok(), prepared.ok() ? "" : prepared.error().message());
    is_ok = findings.print("preparing a context") && is_ok;
  }
  for (const bool has_memory_operations : {true, false}) {
    std::printf("--- %s\n", has_memory_operations ? "streams wait by themselves"
                                                  : "a kernel spins on the stream");
    Bench bench{machine, device, has_memory_operations};
    check(bench, "a hold holds, and a store frees it", holds_until_released);
    check(bench, "a limit counts from the stream's arrival", limit_counts_from_arrival);
    check(bench, "held streams go on in any order", streams_go_on_in_any_order);
    check(bench, "how many of 16 others held streams stop", held_streams_stop_others);
    check(bench, "the legacy stream is held too", legacy_stream_of_the_device);
    check(bench, "5000 holds leave nothing behind", thousands_of_holds_leave_nothing);
  }
  std::printf("--- graphs, the caller's state, data\n");
  Bench bench{machine, device};
  check(bench, "a captured hold acts at each replay", captured_hold_acts_at_each_replay);
  check(bench, "a captured hang ends by a store", captured_hang_ends_by_a_store);
  check(bench, "a first fault breaks no other thread's capture", first_fault_breaks_no_capture);
  check(bench, "context and capture mode stay the caller's", caller_state_is_unchanged);
  check(bench, "12 types × 2 changes × 2 alignments as on the host", corrupts_like_the_host);
  check(bench, "a captured corruption acts at each replay",
        captured_corruption_acts_at_each_replay);
  check(bench, "a first fault beside a running kernel", first_fault_beside_a_spinning_kernel);
  return is_ok ? 0 : 1;
}

}  // namespace
}  // namespace sabot::gpu_test

int main(int argc, char** argv) { return sabot::gpu_test::run(argc > 1 ? std::atoi(argv[1]) : 0); }
