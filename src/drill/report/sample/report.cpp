// All numbers are invented; the texts have the form of those that the judge writes.
#include "drill/report/sample/report.hpp"

namespace sabot::drill::report {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1000 * kMs;
constexpr std::uint64_t kStart = 1'780'000'000 * kSecond;

Case case_of(const char* name, std::uint64_t from_s, std::uint64_t lasting_ms) {
  Case one;
  one.name = name;
  one.scenario_file = "scenario.toml";
  one.run_folder = std::string("/data/drill/") + name;
  one.started_ns = kStart + from_s * kSecond;
  one.finished_ns = one.started_ns + lasting_ms * kMs;
  one.deadline_ns = 60 * kSecond;
  one.attempts = 1;
  one.status_text = "exit status 0";
  return one;
}

Case baseline() {
  Case one = case_of("baseline", 0, 9000);
  one.outcome = Outcome::kCompletes;
  one.expected = "completes";
  one.holds = true;
  one.check = {true, true, "weights 8228231d603f908f"};
  one.log_tail = {"attempt 0 rank 0: done after step 12, weights 8228231d603f908f"};
  return one;
}

Case recovering() {
  Case one = case_of("lost-gradients", 9, 17'500);
  one.scenario = "a lost all-reduce in the first attempt";
  one.faults_line = "lost-gradients: AllReduce[rank=1,nth=8,attempt=0,budget=1]=error(SystemError)";
  one.outcome = Outcome::kRecovers;
  one.expected = "recovers";
  one.holds = true;
  one.requirements = {{"outcome", "recovers", "recovers", true, ""},
                      {"fired lost-gradients", "1", "1", true, ""}};
  const std::uint64_t fault = one.started_ns + 5200 * kMs;
  one.fault_ns = fault;
  one.faults = {{"lost-gradients", "error(SystemError)", 1, fault,
                 "rank 1, AllReduce #8 on c0, attempt 0", "", ""}};
  one.ranks = {{0, 0, "error", "AllReduce", "ncclRemoteError", fault + 3 * kMs, 3 * kMs},
               {1, 0, "error", "AllReduce", "ncclSystemError", fault + 40'000, 40'000}};
  one.events = {
      {EventKind::kStart, one.started_ns, -1, 0, ""},
      {EventKind::kCreated, one.started_ns + 4100 * kMs, 0, 0, "c0 of 2 ranks"},
      {EventKind::kFault, fault, 1, 0, "lost-gradients: error(SystemError) at AllReduce #8 on c0"},
      {EventKind::kDetection, fault + 40'000, 1, 0, "AllReduce on c0: ncclSystemError"},
      {EventKind::kAbort, fault + 2 * kMs, 1, 0, "c0"},
      {EventKind::kDetection, fault + 3 * kMs, 0, 0, "AllReduce on c0: ncclRemoteError"},
      {EventKind::kEnded, fault + 300 * kMs, 1, 0, "exit status 1"},
      {EventKind::kEnded, fault + 350 * kMs, 0, 0, "exit status 1"},
      {EventKind::kRestart, fault + 4300 * kMs, 0, 1, ""},
      {EventKind::kRestart, fault + 4310 * kMs, 1, 1, ""},
      {EventKind::kEnd, one.finished_ns, -1, 1, "exit status 0"}};
  one.detection_ns = 3 * kMs;
  one.recovery_ns = 8'712 * kMs;
  one.attempts = 2;
  one.steps_lost = 0;
  one.check = {true, true, "weights 8228231d603f908f"};
  return one;
}

Case wrong() {
  Case one = case_of("</script><img src=x onerror=alert(1)> & \"quoted\" 'too'", 27, 9100);
  one.run_folder = "/data/drill/case-2";
  one.scenario = "one flipped bit]]>";
  one.faults_line = "flip: AllReduce[rank=1,nth=5]=corrupt(bit-flip,at=after)";
  one.outcome = Outcome::kWrongResult;
  one.expected = "completes|recovers";
  one.requirements = {
      {"outcome", "completes|recovers", "wrong-result", false,
       "expected that the job completes or recovers, but its result is not that of the baseline"},
      {"fired flip", "1", "1", true, ""}};
  one.reasons = {
      "expected that the job completes or recovers, but its result is not that of the baseline"};
  const std::uint64_t fault = one.started_ns + 4700 * kMs;
  one.fault_ns = fault;
  one.faults = {{"flip", "corrupt(bit-flip,at=after)", 1, fault,
                 "rank 1, AllReduce #5 on c0, attempt 0", "", ""}};
  one.ranks = {{0, 0, "", "", "", 0, 0}, {1, 0, "", "", "", 0, 0}};
  one.events = {{EventKind::kFault, fault, 1, 0, "flip: <b>corrupt</b> at AllReduce #5 on c0"}};
  one.check = {true, false,
               "rank 1 ended with weights 0123456789abcdef, rank 0 with those of the "
               "baseline"};
  one.log_tail = {"\033[31mattempt 0 rank 1\033[0m: done after step 12, weights 0123456789abcdef",
                  std::string("a bell \a, a NUL ") + '\0' + ", no UTF-8 \xff, turned \xE2\x80\xAE.",
                  "]]> <system-out> &amp; </pre><script>alert(1)</script>"};
  one.replay = "sabot run --scenario /data/drill/case-2/scenario.toml -- torchrun train.py";
  return one;
}

Case hanging() {
  Case one =
      case_of("AllReduce.steady.rank-1.hang-on-host.of-a-plan-with-very-long-names", 37, 60'400);
  one.faults_line = "stuck: AllReduce[rank=1,nth=20]=hang(on=host)";
  one.outcome = Outcome::kHangs;
  one.expected = "fails-cleanly";
  const std::uint64_t fault = one.started_ns + 6000 * kMs;
  one.fault_ns = fault;
  one.requirements = {{"outcome", "fails-cleanly", "hangs", false,
                       "expected that the job fails cleanly, but it was ended at its deadline"},
                      {"detected_within", "10s or less", "never on rank 0", false,
                       "rank 0 never noticed the fault"}};
  one.reasons = {one.requirements[0].reason, one.requirements[1].reason};
  one.faults = {
      {"stuck", "hang(on=host)", 1, fault, "rank 1, AllReduce #20 on c0, attempt 0", "", ""}};
  one.ranks = {{0, 0, "", "", "", 0, 0}, {1, 0, "", "", "", 0, 0}};
  one.events = {{EventKind::kFault, fault, 1, 0, "stuck: hang(on=host) at AllReduce #20 on c0"}};
  for (int i = 0; i < 25; ++i)
    one.events.push_back({EventKind::kDetection, fault + 10 * kMs * static_cast<unsigned>(i), 0, 0,
                          "asked: ncclSuccess"});
  one.events.push_back({EventKind::kDeadline, one.started_ns + 60'000 * kMs, -1, 0, "60s"});
  one.exit_status = 137;
  one.status_text = "signal 9 (Killed)";
  one.leaked = {"process 4711 (python3 train.py)", "/dev/shm/torch_4711 (1.5MiB)"};
  one.problems = {"journal/h.4711.jsonl:3: not a line of a journal"};
  one.replay = "sabot run --scenario /data/drill/hang/scenario.toml -- torchrun train.py";
  return one;
}

Case unfired() {
  Case one = case_of("never-fires", 98, 9000);
  one.faults_line = "absent: ReduceScatter[rank=1]=error(RemoteError)";
  one.outcome = Outcome::kCompletes;
  one.expected = "recovers";
  one.reasons = {"fault \"absent\" never fired: no call of ReduceScatter was made"};
  one.requirements = {{"fired absent", "1", "0", false, one.reasons[0]}};
  one.faults = {{"absent", "error(RemoteError)", 0, 0, "", "no call of ReduceScatter was made",
                 "not under capture"}};
  return one;
}

Case unrecorded() {
  Case one = case_of("disk-full", 107, 100);
  one.outcome = Outcome::kNotRecorded;
  one.expected = "recovers";
  one.note = "the run folder could not be written: No space left on device";
  one.attempts = 0;
  one.status_text = "exit status 2";
  one.exit_status = 2;
  return one;
}

Case skipped() {
  Case one;
  one.name = "on-the-stream";
  one.faults_line = "late: AllReduce[rank=1]=delay(200ms,on=stream)";
  one.outcome = Outcome::kSkipped;
  one.note = "needs a GPU, and this machine has none";
  return one;
}

DrillReport plain() {
  DrillReport report;
  report.name = "sample <plan>";
  report.plan_file = "plans/sample.toml";
  report.folder = "/data/drill";
  report.command = {"torchrun", "--nproc-per-node", "2",      "--max-restarts",
                    "1",        "train.py",         "--note", "it's fine"};
  report.seed = 18'446'744'073'709'551'615U;
  report.version = "0.1.0";
  report.environment = {{"host", "node7"}, {"engine", "host"}};
  report.started_ns = kStart;
  return report;
}

}  // namespace

DrillReport sample_report() {
  DrillReport report = plain();
  report.finished_ns = kStart + 108 * kSecond;
  report.baseline = baseline();
  report.cases = {recovering(), wrong(), hanging(), unfired(), unrecorded(), skipped()};
  report.left_out = 30;
  return report;
}

DrillReport skipped_report() {
  DrillReport report = plain();
  report.skipped = "the Python package torchft is not installed";
  return report;
}

}  // namespace sabot::drill::report
