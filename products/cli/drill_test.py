#!/usr/bin/env python3
"""sabot drill as people use it: verdicts, files, bad plans, kills, a full disk.

The jobs are the all-reduce example on the host engine, and shell scripts of a few lines.
"""
import json
import os
import pathlib
import pty
import select
import shlex
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import staged_tree
from staged_tree import TreeTest

ERROR = """
[[scenario]]
name = "an error on rank 1"
[[scenario.fault]]
name = "nic-dies"
when = { call = "AllReduce", rank = 1, nth = 3 }
do = { error = "SystemError" }
budget = 1
[scenario.expect]
outcome = "fails-cleanly"
detected_within = "30s"
"""


def until(condition):
    """Polls, bounded; true if the condition came."""
    deadline = time.monotonic() + staged_tree.TIMEOUT_S
    while time.monotonic() < deadline:
        if condition():
            return True
        select.select([], [], [], 0.01)
    return False


class DrillTest(TreeTest):
    """A test with a plan, the example's path and the report of what was drilled."""

    def setUp(self):
        super().setUp()
        self.example = str(staged_tree.TREE / "share/sabot/demo/allreduce")

    def plan(self, body, head='engine = "host"\ndeadline = "60s"\n', name="plan.toml"):
        self.write(name, "sabot = 1\n" + head + body)
        return name

    def drill(self, *words, **environment):
        return self.run_sabot("drill", *words, **environment)

    def report(self, *words, command=None, status=None):
        """Runs plan.toml and returns its JSON report."""
        command = [self.example, "--ranks", "3"] if command is None else command
        done = self.drill("plan.toml", "--json", "report.json", *words, "--", *command)
        if status is not None:
            self.assertEqual(done.status, status, done.out + done.err)
        return json.loads((self.folder / "report.json").read_text()), done

    def latest(self, name):
        return (self.folder / "runs/latest-drill" / name).resolve()


class Verdicts(DrillTest):
    """What became of real jobs."""

    def test_a_drill_that_holds_is_status_0_and_writes_all_outputs(self):
        self.plan(ERROR)
        done = self.drill("plan.toml", "--junit", "j.xml", "--json", "j.json", "--html", "h.html",
                          "--", self.example, "--ranks", "3")
        self.assertEqual(done.status, 0, done.out + done.err)
        self.assertIn("an error on rank 1", done.out)
        self.assertIn("[1/1] as expected      an error on rank 1: fails-cleanly", done.err)
        suite = ElementTree.parse(self.folder / "j.xml").getroot()
        self.assertEqual({case.get("name") for case in suite.iter("testcase")},
                         {"baseline", "an error on rank 1"})
        self.assertEqual(list(suite.iter("failure")), [])
        report = json.loads((self.folder / "j.json").read_text())
        case = report["cases"][0]
        self.assertEqual(case["outcome"], "fails-cleanly")
        self.assertEqual([rank["how"] for rank in case["ranks"]], ["error"] * 3)
        self.assertEqual(case["faults"][0]["fired_count"], 1)
        self.assertIn("<html", (self.folder / "h.html").read_text())
        # What the drill says replays the case.
        words = ["run", "--scenario", case["scenario_file"], "--engine", "host", "--",
                 self.example, "--ranks", "3"]
        self.assertEqual(self.run_sabot(*words).status, 1)

    def test_a_fault_that_never_fired_fails_the_drill_and_says_why(self):  # C19
        self.plan(ERROR.replace("rank = 1,", "rank = 7,").replace("fails-cleanly", "completes")
                  .replace('detected_within = "30s"\n', ""))
        report, done = self.report(status=1)
        self.assertEqual(report["cases"][0]["outcome"], "completes")
        self.assertIn("15 calls matched everything but rank (wanted 7, seen 0 to 2)", done.err)

    def test_another_outcome_than_expected_is_status_1_with_the_reason(self):
        self.plan(ERROR.replace("fails-cleanly", "recovers"))
        report, _ = self.report(status=1)
        self.assertIn("expected recovers, but the job fails cleanly: it ended by itself with exit"
                      " status 1", report["cases"][0]["reasons"][0])

    def test_a_job_that_comes_back_by_itself_recovers(self):
        self.plan(ERROR.replace("fails-cleanly", "recovers")
                  .replace("nth = 3", "nth = 3, attempt = 0") + "attempts = 2\nsteps_lost = 2\n",
                  head='engine = "host"\nprogress = "stdout:rank 0 call ([0-9]+) AllReduce ok"\n')
        script = f"{self.example} --ranks 2 || SABOT_ATTEMPT=1 {self.example} --ranks 2"
        report, done = self.report(command=["sh", "-c", script], status=0)
        case = report["cases"][0]
        self.assertEqual((case["outcome"], case["attempts"]), ("recovers", 2), done.out)
        self.assertGreater(case["recovery_ns"], 0)

    def test_a_hang_is_ended_at_the_deadline_with_all_that_belongs_to_it(self):
        self.plan(ERROR, head='engine = "host"\ndeadline = "1500ms"\n')
        script = (f"{self.example} --ranks 3 || {{ setsid sleep 600 & echo $! > daemon;"
                  " trap '' TERM; while :; do sleep 600; done; }")
        report, _ = self.report(command=["sh", "-c", script], status=1)
        case = report["cases"][0]
        self.assertEqual(case["outcome"], "hangs")
        self.assertIn("sleep 600", case["reasons"][0])
        daemon = int((self.folder / "daemon").read_text())
        self.assertTrue(until(lambda: not pathlib.Path(f"/proc/{daemon}").exists()))

    def test_a_process_left_behind_is_dirt_whatever_the_status(self):
        self.plan(ERROR)
        script = f"{self.example} --ranks 3 || {{ setsid sleep 600 & exit 1; }}"
        report, _ = self.report(command=["sh", "-c", script], status=1)
        self.assertEqual(report["cases"][0]["outcome"], "dies-dirty")
        self.assertIn("(sleep 600)", report["cases"][0]["leaked"][0])

    def test_a_job_that_hides_its_error_has_a_wrong_result(self):  # C15
        self.plan(ERROR, head='engine = "host"\n'
                  'check = "stdout:rank ([0-9]+) call 5 AllReduce ok (sum=[0-9]+)"\n')
        script = f"{self.example} --ranks 3; exit 0"
        report, _ = self.report(command=["sh", "-c", script], status=1)
        case = report["cases"][0]
        self.assertEqual(case["outcome"], "wrong-result")
        self.assertIn("the baseline has '0 sum=18'", case["check"]["text"])

    def test_a_check_command_compares_by_itself_or_by_what_it_prints(self):
        command = ["sh", "-c", f"{self.example} --ranks 2 > $0/out; echo 7 > $0/result", "{work}"]
        silent = ERROR.replace("rank = 1, nth = 3", "rank = 1, nth = 300") \
            .replace("fails-cleanly", "completes").replace('detected_within = "30s"', "fired = {"
                                                           ' "nic-dies" = 0 }\ncheck = true')
        self.plan(silent, head='engine = "host"\n'
                  'check = ["cmp", "{work}/result", "{baseline}/result"]\n')
        report, _ = self.report(command=command, status=0)
        self.assertTrue(report["cases"][0]["check"]["agrees"])
        self.plan(silent, head='engine = "host"\ncheck = ["cat", "{work}/result"]\n')
        report, _ = self.report(command=command, status=0)
        self.assertTrue(report["cases"][0]["check"]["agrees"])
        self.plan(silent, head='engine = "host"\ncheck = ["sh", "-c", "echo $0", "{work}"]\n')
        report, _ = self.report(command=command, status=1)
        self.assertEqual(report["cases"][0]["outcome"], "wrong-result")

    def test_cases_run_side_by_side_in_folders_of_their_own(self):
        bodies = [ERROR.replace("an error on rank 1", f"case {i}") for i in range(4)]
        self.plan("".join(bodies), head='engine = "host"\nparallel = 4\n')
        report, _ = self.report(status=0)
        self.assertEqual([case["name"] for case in report["cases"]],
                         [f"case {i}" for i in range(4)])
        self.assertEqual(len({case["run_folder"] for case in report["cases"]}), 4)


class Generated(DrillTest):
    """Cases made from the calls of the baseline."""

    def test_every_call_of_the_baseline_is_met_and_the_seed_draws_the_sample(self):
        self.environment["SABOT_TIMEOUT"] = "2s"  # for a rank that waits for one that cannot join
        self.plan('[[generate]]\nactions = ["error(SystemError)"]\n'
                  'phases = ["init", "first", "steady", "last", "teardown"]\nbudget = 100\n',
                  head='engine = "host"\nparallel = 2\nseed = 3\n')
        report, _ = self.report(command=[self.example, "--ranks", "2"], status=0)
        names = [case["name"] for case in report["cases"]]
        self.assertEqual(len(names), 10, names)
        for function in ("CommInitRank #1 rank 1", "AllReduce #1 rank 0 c0",
                         "AllReduce #5 rank 1 c0", "CommDestroy #1 rank 1 c0"):
            self.assertIn(f"{function} error(SystemError)", names)
        self.assertTrue(all(case["faults"][0]["fired_count"] == 1 for case in report["cases"]))
        first, _ = self.report("--budget", "3", command=[self.example, "--ranks", "2"], status=0)
        again, _ = self.report("--budget", "3", command=[self.example, "--ranks", "2"], status=0)
        self.assertEqual([case["name"] for case in first["cases"]],
                         [case["name"] for case in again["cases"]])
        self.assertEqual((len(first["cases"]), first["counts"]["left_out"]), (3, 7))

    def test_a_call_that_the_baseline_never_makes_is_refused_with_those_it_makes(self):
        self.plan('[generate]\ncalls = ["Broadcast"]\nactions = ["hang"]\n')
        done = self.drill("plan.toml", "--", self.example, "--ranks", "2")
        self.assertEqual(done.status, 2)
        self.assertIn("plan.toml:4: the baseline makes no call that is asked for here; it calls"
                      " AllReduce (up to 5 times on 2 ranks)", done.err)


class BadInput(DrillTest):
    """Everything that can be known before the first case is said before it."""

    def refused(self, plan, text, *words, command=("true",)):
        self.plan(*plan)
        done = self.drill("plan.toml", *words, "--", *command)
        self.assertEqual(done.status, 2, done.out + done.err)
        self.assertIn(text, done.err)
        return done

    def test_mistakes_in_the_plan_name_file_line_and_key(self):
        self.refused(('dedline = "3s"\n' + ERROR,),
                     "plan.toml:4: key 'dedline': unknown key; did you mean 'deadline'?")
        done = self.drill("gone.toml")
        self.assertEqual(done.status, 2)
        self.assertIn("gone.toml", done.err)
        self.assertFalse((self.folder / "runs").exists())

    def test_contradicting_expectations(self):
        self.refused((ERROR + 'finished_within = "5s"\n',), "is longer than finished_within")
        self.refused((ERROR + 'finished_within = "300s"\n',), "is longer than the deadline of 60s")

    def test_a_command_that_is_missing_or_cannot_be_found(self):
        self.plan(ERROR)
        done = self.drill("plan.toml")
        self.assertEqual(done.status, 2)
        self.assertIn("plan.toml: key 'command': missing", done.err)
        self.refused((ERROR,), "cannot run 'no-such-program': there is no such program in PATH",
                     command=["no-such-program"])
        self.assertFalse((self.folder / "runs").exists())

    def test_a_deadline_shorter_than_the_baseline(self):
        self.refused((ERROR, 'deadline = "300ms"\n'),
                     "the command had not ended without any fault after 300ms, the deadline of the"
                     " plan", command=["sleep", "600"])
        self.refused((ERROR.replace('rank 1"\n', 'rank 1"\ndeadline = "10ms"\n'),),
                     "the deadline of 10ms is shorter than", command=["sleep", "0.2"])

    def test_a_command_that_fails_without_any_fault(self):
        done = self.refused((ERROR,), "the command does not complete without any fault",
                            command=["sh", "-c", "echo a word of it; exit 5"])
        self.assertIn("exit status 5", done.err)
        self.assertIn("a word of it", done.err)

    def test_a_check_that_disagrees_with_the_baseline_itself(self):
        self.refused((ERROR, 'check = ["false"]\n'),
                     "the check does not agree with the baseline itself: it ended with status 1")
        self.refused((ERROR, 'check = "stdout:weights (.*)"\n'),
                     "the baseline printed nothing that matches")

    def test_what_is_needed_and_not_there_skips_the_drill(self):
        self.plan(ERROR + '[[needs]]\ncommand = ["false"]\notherwise = "torch is missing"\n')
        done = self.drill("plan.toml", "--junit", "j.xml", "--", "true")
        self.assertEqual(done.status, 77, done.err)
        self.assertIn("torch is missing", done.out + done.err)

    def test_a_folder_that_holds_a_drill_is_not_mixed_with_another(self):
        self.plan(ERROR)
        words = ("plan.toml", "--run-folder", "here")
        self.drill(*words, "--", self.example)
        done = self.drill(*words, "--", self.example)
        self.assertEqual(done.status, 2)
        self.assertIn("'here' already holds a drill", done.err)
        done = self.drill(*words, "--resume", "--", self.example, "--ranks", "4")
        self.assertEqual(done.status, 2)
        self.assertIn("was started with another plan, command, seed or budget", done.err)
        done = self.drill("plan.toml", "--resume", "--run-folder", "gone", "--", "true")
        self.assertIn("there is no drill to resume in 'gone'", done.err)


class Interrupted(DrillTest):
    """A drill that is killed leaves no process, and a folder that --resume finishes."""

    SLOW = ("if [ -e go ] || [ ! -e waiting ]; then touch waiting; exec $0 --ranks 2; fi;"
            " echo $$ >> pids; sleep 600")

    def begin(self):
        """Starts a drill whose first case waits; its process ids."""
        bodies = [ERROR.replace("an error on rank 1", f"case {i}") for i in range(3)]
        self.plan("".join(bodies), head='engine = "host"\nparallel = 2\n')
        words = [self.sabot, "drill", "plan.toml", "--json", "report.json", "--", "sh", "-c",
                 self.SLOW, self.example]
        with open(self.folder / "err", "wb") as err:
            process = subprocess.Popen(words, cwd=self.folder, env=self.environment, stderr=err,
                                       stdout=subprocess.DEVNULL)
        pids = self.folder / "pids"
        self.assertTrue(until(lambda: pids.exists() and len(pids.read_text().split()) == 2),
                        (self.folder / "err").read_text())
        return process, [int(pid) for pid in pids.read_text().split()]

    def all_gone(self, pids):
        return until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))

    def finish(self):
        (self.folder / "go").touch()
        report, done = self.report("--resume", command=["sh", "-c", self.SLOW, self.example],
                                   status=0)
        self.assertEqual([case["outcome"] for case in report["cases"]], ["fails-cleanly"] * 3)
        self.assertNotIn("baseline: the command", done.err, "the baseline was run already")

    def test_sigkill_of_the_drill_leaves_nothing_running_and_resume_finishes_it(self):
        process, pids = self.begin()
        process.kill()
        process.wait()
        self.assertTrue(self.all_gone(pids))
        self.finish()

    def test_sigterm_ends_everything_and_says_how_to_finish(self):
        process, pids = self.begin()
        process.terminate()
        self.assertEqual(process.wait(staged_tree.TIMEOUT_S), 128 + signal.SIGTERM)
        self.assertTrue(self.all_gone(pids))
        self.assertIn("--resume --run-folder", (self.folder / "err").read_text())
        self.finish()

    def test_finished_cases_are_not_run_again(self):
        self.plan(ERROR)
        script = "echo x >> count; exec $0 --ranks 2"
        self.report(command=["sh", "-c", script, self.example], status=0)
        self.report("--resume", command=["sh", "-c", script, self.example], status=0)
        self.assertEqual((self.folder / "count").read_text(), "x\n" * 2, "baseline and one case")


class Displays(DrillTest):
    """What a person sees meanwhile."""

    def test_a_terminal_gets_a_bar(self):
        self.plan(ERROR)
        ours, theirs = pty.openpty()
        process = subprocess.Popen([self.sabot, "drill", "plan.toml", "--", self.example],
                                   cwd=self.folder, env={**self.environment, "TERM": "xterm"},
                                   stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:
            pass  # Linux says so where others say the end
        os.close(ours)
        self.assertEqual(process.wait(), 0, seen)
        self.assertIn(b"\r\x1b[K[                    ] 0/1, running: an error on rank 1", seen)


class FullDisk(DrillTest):
    """A disk that fills up during a run: a verdict, and nothing lost."""

    def test_a_case_that_cannot_be_recorded_is_not_judged_and_is_run_again_later(self):
        place = self.folder / "small"
        place.mkdir()
        self.plan(ERROR)
        # A file system of its own for the drill, which the second run of the job fills.
        script = ("if [ -e small/once ] && [ ! -e small/roomy ]; then"
                  " dd if=/dev/zero of=small/filler bs=64k 2> /dev/null; fi;"
                  " touch small/once; exec $0 --ranks 2")
        words = " ".join(map(shlex.quote, ["--", "sh", "-c", script, self.example]))
        start = f"{self.sabot} drill plan.toml --run-folder small/drill --json"
        shell = ("mount -t tmpfs -o size=8m none small || exit 99;"
                 f" {start} first.json {words}; echo first $?;"
                 " rm small/filler; touch small/roomy;"
                 f" {start} second.json --resume {words}; echo second $?")
        done = self.command(["unshare", "-rm", "sh", "-c", shell])
        if done.status == 99 or "unshare" in done.err.split("\n")[0]:
            self.skipTest("this machine lets no user mount a file system of its own")
        self.assertIn("first 1\n", done.out, done.err)
        self.assertIn("second 0\n", done.out, done.err)
        first = json.loads((self.folder / "first.json").read_text())["cases"][0]
        self.assertEqual(first["outcome"], "not-recorded")
        self.assertIn("could not record", first["note"])
        second = json.loads((self.folder / "second.json").read_text())["cases"][0]
        self.assertEqual(second["outcome"], "fails-cleanly")


if __name__ == "__main__":
    staged_tree.main()
