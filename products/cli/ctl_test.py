#!/usr/bin/env python3
"""sabot ctl as people use it: a run is asked, changed, killed, gone; and what its ranks then do."""
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

import staged_tree
from staged_tree import TreeTest

SCENARIO = """sabot = 1
name = "control me"
[[fault]]
name = "stormy"
when = { call = "AllReduce", switch = "storm" }
do = { error = "SystemError" }
[[fault]]
name = "asleep"
armed = false
when = { call = "AllReduce", nth = 1000000 }
do = { error = "RemoteError" }
"""
MORE = """sabot = 1
[[fault]]
name = "late"
when = { call = "AllReduce" }
do = { error = "InternalError" }
budget = 3
"""
# Two ranks that all-reduce all the time until a file `stop` is there, and write a line for each
# call that failed or took long. Errors come after the call, so that the ranks stay in step.
JOB = """
import ctypes, json, os, time

class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]

read, write = os.pipe()
rank = 0 if os.fork() else 1
nccl = ctypes.CDLL(None)
unique = Id()
if rank == 0:
    nccl.ncclGetUniqueId(ctypes.byref(unique))
    os.write(write, bytes(unique))
else:
    unique = Id.from_buffer_copy(os.read(read, 128))
comm = ctypes.c_void_p()
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, rank) == 0
memory = (ctypes.c_float * 4)()
with open(f"rank{rank}.log", "w", buffering=1) as log:
    while True:
        memory[0] = 1.0 if rank == 0 and os.path.exists("stop") else 0.0
        start = time.monotonic_ns()
        result = nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(4), 7, 0, comm, None)
        end = time.monotonic_ns()
        if result != 0 or end - start > 30_000_000:
            log.write(json.dumps({"result": result, "start": start, "end": end}) + "\\n")
        if memory[0] != 0:
            break
        if start % 64 == 0:
            open(f"rank{rank}.alive", "w").close()
        time.sleep(0.001)
if rank == 0:
    os.wait()
"""
STORM = """sabot = 1
[[fault]]
name = "stormy"
when = { call = "AllReduce", switch = "storm" }
do = { error = "SystemError", at = "after" }
[[fault]]
name = "frozen"
when = { call = "AllReduce", switch = "frost" }
do = { hang = true, on = "host" }
[[fault]]
name = "asked"
armed = false
when = { call = "AllReduce", nth = 1 }
do = { error = "RemoteError", at = "after" }
"""
ADDED = """sabot = 1
[[fault]]
name = "late"
when = { call = "AllReduce", rank = 1 }
do = { error = "InternalError", at = "after" }
budget = 2
"""
# Waits for a word on its standard input, so that it ends with the test at the latest.
WAITING = ["sh", "-c", "touch ready; read line; exit 7"]
HELP = "\n`sabot help ctl` explains it.\n"


class Running:
    """A run in the background; `end` lets its command go on to its end."""

    def __init__(self, test, *words, folder=None, command=None, **environment):
        self.process = subprocess.Popen(
            [test.sabot, "run", "--engine", "host", *words, "--", *(command or WAITING)],
            cwd=folder or test.folder, env={**test.environment, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        test.addCleanup(self.kill)
        ready = pathlib.Path(folder or test.folder) / "ready"
        deadline = time.monotonic() + staged_tree.TIMEOUT_S
        while not ready.exists() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        test.assertTrue(ready.exists(), "the command did not start")

    def end(self, words=b"go\n"):
        self.out, err = self.process.communicate(words, timeout=staged_tree.TIMEOUT_S)
        self.err = err.decode()
        return self.err

    def kill(self):
        """Nothing of the run outlives the test."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


class Words(TreeTest):
    """What is wrong with the words is said before any run is asked."""

    def refused(self, words, expected):
        done = self.run_sabot("ctl", *words)
        self.assertEqual((done.status, done.out, done.err),
                         (2, "", "sabot ctl: " + expected + HELP))

    def test_a_missing_or_unknown_request(self):
        verbs = "status, arm, disarm, fire, release, add"
        self.refused([], f"say {verbs}")
        self.refused(["statsu"], "unknown word 'statsu'; did you mean 'status'?")
        self.refused(["r", "explode"], f"unknown word 'explode'; say {verbs}")
        (self.folder / "r").mkdir()
        self.refused(["r"], f"say what to do with run 'r': {verbs}")

    def test_what_belongs_to_a_request(self):
        self.refused(["arm"], "name the fault to arm")
        self.refused(["fire"], "name the fault to fire")
        self.refused(["add"], "name the scenario file to add")
        self.refused(["status", "x"], "status takes no word 'x'")
        self.refused(["r", "arm", "x", "y"], "arm takes no word 'y'")
        self.refused(["arm", "x", "--rank", "1"], "--rank belongs to fire")
        self.refused(["arm", "x", "--json"], "--json belongs to status")
        self.refused(["add", "gone.toml"],
                     "cannot read scenario 'gone.toml': there is no such file")
        self.refused(["add", "."], "cannot read scenario '.': it is a directory")


class NoRun(TreeTest):
    """A run that is not there, or not any more, is status 1 and one sentence."""

    def missing(self, words, expected):
        done = self.run_sabot("ctl", *words)
        self.assertEqual((done.status, done.out, done.err), (1, "", f"sabot ctl: {expected}\n"))

    def test_no_run_was_started_here(self):
        self.missing(["status"], "no run was started in this folder (there is no runs/latest); "
                                 "name its run folder: sabot ctl RUN status")
        self.missing(["nowhere", "status"], "there is no run folder 'nowhere'")
        (self.folder / "r").mkdir()
        self.missing(["r", "status"],
                     "'r' is no run folder of `sabot run`: it has no config.json")

    def test_a_run_that_has_ended(self):
        self.run_sabot("run", "--engine", "host", "--run-folder", "run-one", "--", "true")
        ended = "run 'run-one' has ended, or is not controlled: nothing serves its control.sock"
        self.missing(["run-one", "status"], ended)
        self.missing(["run-two", "status"],
                     "there is no run folder 'run-two'; did you mean 'run-one'?")

    def test_a_run_whose_launcher_was_killed(self):
        run = Running(self, "--run-folder", "r")
        run.process.kill()
        run.process.wait()
        host = json.loads((self.folder / "r/control.server").read_text())["host"]
        self.missing(["r", "status"],
                     f"run 'r' has ended: its launcher (process {run.process.pid} on host {host}) "
                     "is gone without a farewell")

    def test_a_launcher_that_is_stopped_does_not_hold_us_for_ever(self):
        run = Running(self, "--run-folder", "r")
        run.process.send_signal(signal.SIGSTOP)
        before = time.monotonic()
        self.missing(["r", "status"], "run 'r' has not answered for 10 s; is its launcher (process "
                                      f"{run.process.pid}) stopped?")
        self.assertLess(time.monotonic() - before, 60)
        run.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.run_sabot("ctl", "r", "status").status, 0)

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_a_run_of_another_user(self):
        run = Running(self, "--run-folder", "r")
        self.folder.chmod(0o755)
        words = [self.sabot, "ctl", str(self.folder / "r"), "status"]
        pathlib.Path(staged_tree.TREE).chmod(0o755)
        try:
            done = subprocess.run(words, user=65534, group=65534, extra_groups=[], check=False,
                                  capture_output=True, text=True, env=self.environment,
                                  timeout=staged_tree.TIMEOUT_S)
        except PermissionError as error:
            self.skipTest(f"cannot become another user here: {error}")
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"sabot ctl: run '{self.folder}/r' belongs to user root, and only "
                             "they may control it\n"))
        run.end()


class Changes(TreeTest):
    """A run that does nothing yet is asked and changed."""

    def setUp(self):
        super().setUp()
        self.write("s.toml", SCENARIO)
        self.write("more.toml", MORE)
        self.run = Running(self, "--scenario", "s.toml")

    def ctl(self, *words):
        done = self.run_sabot("ctl", *words)
        self.assertEqual((done.status, done.err), (0, ""), words)
        return done.out

    def refused(self, *words):
        done = self.run_sabot("ctl", *words)
        self.assertEqual((done.status, done.out), (2, ""), words)
        return done.err

    def fault(self, name):
        status = json.loads(self.ctl("status", "--json"))
        return {fault["name"]: fault for fault in status["faults"]}[name]

    def test_the_socket_is_the_users_alone(self):
        mode = (self.folder / "runs/latest/control.sock").stat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)

    def test_the_status_is_a_table_and_json(self):
        folder = (self.folder / "runs/latest").resolve()
        text = self.ctl("status")
        self.assertRegex(text, rf"\Arun {folder}, \d+\.\d s, controlled on host \S+ by process "
                               rf"{self.run.process.pid}\n")
        self.assertIn("0 processes attached, 0 alive here, 0 calls seen\n"
                      "fault   state     fired  left      held now\n"
                      "stormy  armed     0      no limit  0\n"
                      "asleep  disarmed  0      no limit  0\n"
                      "switch storm is off\n", text)
        status = json.loads(self.ctl("runs/latest", "status", "--json"))
        self.assertEqual(status["run"], str(folder))
        self.assertEqual(status["launcher_pid"], self.run.process.pid)
        self.assertEqual(status["faults"][0],
                         {"name": "stormy", "added": 0, "armed": True, "fired": 0, "budget": None,
                          "left": None, "waits_for": None, "held": []})
        self.assertEqual(status["switches"], [{"name": "storm", "on": False}])

    def test_each_request_changes_what_the_status_says(self):
        self.assertEqual(self.ctl("disarm", "stormy"), 'fault "stormy" is disarmed\n')
        self.assertFalse(self.fault("stormy")["armed"])
        self.assertEqual(self.ctl("arm", "asleep"), 'fault "asleep" is armed\n')
        self.assertTrue(self.fault("asleep")["armed"])
        self.assertEqual(self.ctl("arm", "storm"), 'switch "storm" is on\n')
        self.assertIn("switch storm is on\n", self.ctl("status"))
        self.assertEqual(self.ctl("fire", "asleep", "--rank", "3"),
                         'fault "asleep" fires once, on rank 3, at the next call that meets its '
                         "conditions, counts, times and chance apart\n")
        self.assertEqual(self.fault("asleep")["waits_for"], "rank 3")
        self.assertEqual(self.ctl("release"), "everything is released (0 calls held)\n")
        self.assertEqual(self.ctl("add", "more.toml"), 'more.toml: added fault "late"\n')
        self.assertEqual(self.fault("late")["left"], 3)
        self.assertEqual((self.folder / "runs/latest/added/1.toml").read_text(), MORE)

    def test_a_scenario_comes_through_a_pipe_too(self):
        done = self.run_sabot("ctl", "add", "/dev/stdin", stdin=MORE.encode())
        self.assertEqual(done.out, '/dev/stdin: added fault "late"\n')

    def test_what_is_refused_says_why(self):
        self.assertEqual(self.refused("arm", "stromy"), "sabot ctl: no fault or switch is called "
                                                        "'stromy'; did you mean 'stormy'?\n")
        self.write("bad.toml", MORE.replace("AllReduce", "AllReduse"))
        self.assertIn("bad.toml:4: key 'when.call': ", self.refused("add", "bad.toml"))
        self.write("taken.toml", MORE.replace("late", "stormy"))
        self.assertEqual(self.refused("add", "taken.toml"),
                         'taken.toml: fault "stormy" is in this run already; budgets and journal '
                         "go by names, so give it another\n")
        self.assertFalse((self.folder / "runs/latest/added").exists())

    def test_the_end_of_the_run_counts_what_was_added(self):
        self.ctl("add", "more.toml")
        err = self.run.end()
        self.assertEqual(self.run.process.returncode, 7)
        self.assertIn("faults planned 3, fired 0\n", err)
        self.assertIn('[sabot] fault "late", added to the run, did not fire\n', err)

    def test_the_run_of_the_environment_is_asked_before_the_latest(self):
        self.run_sabot("run", "--quiet", "--engine", "host", "--", "true")
        done = self.run_sabot("ctl", "status", SABOT_RUN_FOLDER=str(
            sorted((self.folder / "runs").iterdir())[0]))
        self.assertIn(f"by process {self.run.process.pid}\n", done.out)


class Several(TreeTest):
    """More than one launcher in a run folder: one serves, nobody is hindered."""

    def test_a_run_within_a_run_is_silent_and_leaves_the_control_to_the_outer_one(self):
        inner = [self.sabot, "run", "--engine", "host", "--", *WAITING]
        outer = Running(self, "--run-folder", "r", command=inner)
        status = json.loads(self.run_sabot("ctl", "r", "status", "--json").out)
        self.assertEqual(status["launcher_pid"], outer.process.pid)
        err = outer.end()
        self.assertEqual(outer.process.returncode, 7)
        self.assertEqual([line for line in err.splitlines() if "control" in line], [])
        self.assertFalse((self.folder / "r/control.sock").exists())

    def test_when_the_one_that_serves_ends_another_takes_over(self):
        (self.folder / "second").mkdir()
        first = Running(self, "--run-folder", str(self.folder / "r"))
        second = Running(self, folder=self.folder / "second",
                         SABOT_RUN_FOLDER=str(self.folder / "r"))
        first.end()
        deadline = time.monotonic() + staged_tree.TIMEOUT_S
        status = 1
        while status != 0 and time.monotonic() < deadline:
            done = self.run_sabot("ctl", "r", "status", "--json")
            status = done.status
        self.assertEqual(json.loads(done.out)["launcher_pid"], second.process.pid)

    def test_a_run_folder_with_a_long_path_is_controlled_too(self):
        deep = self.folder
        while len(str(deep)) < 200:
            deep /= "a-folder-with-quite-a-name"
        run = Running(self, "--run-folder", str(deep))
        done = self.run_sabot("ctl", deep, "status", "--json")
        self.assertEqual(json.loads(done.out)["launcher_pid"], run.process.pid)


class Effects(TreeTest):
    """What the ranks of a run do when it is changed, and how soon."""

    ROUNDS = 5
    SOON_NS = 100_000_000

    def start(self, scenario=STORM):
        self.write("job.py", JOB)
        words = ["--run-folder", "r"]
        if scenario:
            self.write("s.toml", scenario)
            words += ["--scenario", "s.toml"]
        job = f"touch ready; exec {sys.executable} job.py"
        run = Running(self, *words, command=["sh", "-c", job])
        self.addCleanup((self.folder / "stop").touch)
        self.eventually(lambda: all((self.folder / f"rank{r}.alive").exists() for r in (0, 1)))
        return run

    def stop(self, run):
        (self.folder / "stop").touch()
        err = run.end()
        self.assertEqual(run.process.returncode, 0, err)
        return err

    def eventually(self, condition):
        deadline = time.monotonic() + staged_tree.TIMEOUT_S
        while time.monotonic() < deadline:
            if found := condition():
                return found
            time.sleep(0.005)
        return self.fail("it did not come about")

    def ask(self, **request):
        """One request by the protocol itself; returns when it was sent, and the answer."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(staged_tree.TIMEOUT_S)
            line.connect(str(self.folder / "r/control.sock"))
            sent = time.monotonic_ns()
            line.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(line.makefile().readline())
        self.assertTrue(answer["ok"], answer)
        return sent, answer

    def events(self, rank):
        text = (self.folder / f"rank{rank}.log").read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def errors_since(self, rank, since):
        return [event for event in self.events(rank) if event["result"] and event["end"] >= since]

    def fault(self, name):
        _, answer = self.ask(do="status")
        return {fault["name"]: fault for fault in answer["status"]["faults"]}[name]

    def test_a_switch_reaches_all_ranks_within_100_ms(self):
        run = self.start()
        delays = []
        for _ in range(self.ROUNDS):
            sent, _ = self.ask(do="arm", name="storm")
            first = [self.eventually(lambda r=r: self.errors_since(r, sent))[0] for r in (0, 1)]
            self.assertEqual([event["result"] for event in first], [2, 2])
            delays.append(max(event["end"] for event in first) - sent)
            self.ask(do="disarm", name="storm")
            quiet = time.monotonic_ns() + 2 * self.SOON_NS
            self.eventually(lambda: time.monotonic_ns() > quiet + self.SOON_NS)
            self.assertEqual(self.errors_since(0, quiet) + self.errors_since(1, quiet), [])
        self.assertLess(min(delays), self.SOON_NS, delays)
        fired = self.fault("stormy")["fired"]
        self.assertEqual(fired, len(self.events_with(2)))
        self.assertIn(", fired 1 (", self.stop(run))

    def events_with(self, result):
        both = self.events(0) + self.events(1)
        return [event for event in both if event["result"] == result]

    def test_held_calls_are_shown_and_released_within_100_ms(self):
        run = self.start()
        delays = []
        for _ in range(self.ROUNDS):
            self.ask(do="arm", name="frost")
            self.eventually(lambda: self.fault("frozen")["held"])
            # The other rank is held too, or waits for this one within a call that began before.
            time.sleep(0.1)
            held = self.fault("frozen")["held"]
            self.assertIn(sorted(call["rank"] for call in held), [[0], [1], [0, 1]])
            calls = "1 call" if len(held) == 1 else "2 calls"
            _, answer = self.ask(do="disarm", name="frozen")
            self.assertIn(f"it still holds {calls}", answer["text"])
            sent, answer = self.ask(do="release", name="frozen")
            self.assertEqual(answer["text"], f'fault "frozen" is released ({calls} held)')
            ended = [self.eventually(lambda r=r: [event for event in self.events(r)
                                                  if event["end"] >= sent])[0] for r in (0, 1)]
            self.assertEqual([event["result"] for event in ended], [0, 0])
            delays.append(max(event["end"] for event in ended) - sent)
            self.eventually(lambda: not self.fault("frozen")["held"])
            self.ask(do="disarm", name="frost")
            self.ask(do="arm", name="frozen")
        self.assertLess(min(delays), self.SOON_NS, delays)
        self.stop(run)

    def test_a_fault_fires_once_when_it_is_asked_to_also_if_it_is_not_armed(self):
        run = self.start()
        for number, rank in enumerate((1, 0, None), 1):
            self.ask(do="fire", name="asked", **({} if rank is None else {"rank": rank}))
            self.eventually(lambda n=number: len(self.events_with(6)) == n)
            self.assertIsNone(self.fault("asked")["waits_for"])
            if rank is not None:
                self.assertEqual(len([e for e in self.events(rank) if e["result"] == 6]), 1)
        self.assertEqual(self.fault("asked")["fired"], 3)
        self.stop(run)
        self.assertEqual(len(self.events_with(6)), 3)
        self.assertEqual(len([line for line in self.journal("r") if '"asked"' in line]), 3)

    def test_a_scenario_reaches_a_run_that_had_none(self):
        run = self.start(scenario=None)
        sent, _ = self.ask(do="add", file="late.toml", text=ADDED)
        first = self.eventually(lambda: self.errors_since(1, sent))[0]
        self.assertEqual(first["result"], 3)
        self.eventually(lambda: self.fault("late")["left"] == 0)
        self.assertEqual(self.fault("late")["fired"], 2)
        err = self.stop(run)
        self.assertEqual((len(self.events_with(3)), self.errors_since(0, sent)), (2, []))
        self.assertIn("faults planned 1, fired 1 (2 times)\n", err)


if __name__ == "__main__":
    staged_tree.main()
