#!/usr/bin/env python3
"""sabot run and sabot demo as people use them: streams, signals, engines, proof, exit statuses."""
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

import staged_tree
from staged_tree import TreeTest

FIRST = r"\[sabot\] engine host \(.*\), way stand-in, run folder runs/"
ENDED = "[sabot] run ended: 0 processes attached, 0 calls seen, faults planned 0, fired 0\n"


def until(condition):
    """Polls, bounded; true if the condition came."""
    deadline = time.monotonic() + staged_tree.TIMEOUT_S
    while time.monotonic() < deadline:
        if condition():
            return True
        select.select([], [], [], 0.01)
    return False


class Untouched(TreeTest):
    """C20: programs that have nothing to do with NCCL run as if nothing were there."""

    def same(self, words, stdin=b""):
        """Output, errors and status are those of the bare command; ours are two lines."""
        bare = self.command(words, stdin=stdin)
        done = self.run_sabot("run", "--", *words, stdin=stdin)
        self.assertEqual(done.raw_out, bare.raw_out, words)
        self.assertEqual(done.status, bare.status, words)
        lines = done.err.splitlines(keepends=True)
        self.assertRegex(lines[0], FIRST)
        self.assertEqual(lines[-1], ENDED)
        self.assertEqual("".join(lines[1:-1]), bare.err, words)
        quiet = self.run_sabot("run", "--quiet", "--", *words, stdin=stdin)
        self.assertEqual((quiet.raw_out, quiet.err, quiet.status),
                         (bare.raw_out, bare.err, bare.status))

    def test_shells_filters_and_interpreters(self):
        self.same(["bash", "-c", "echo out; echo err >&2; exit 7"])
        self.same(["cat"], stdin=bytes(range(256)) * 1000)
        self.same(["sh", "-c", "ls /nowhere | wc -l"])
        self.same([sys.executable, "-c", "import sys; print(sys.argv)", "a b", "--", "-x", ""])
        self.same(["git", "--version"])
        self.same(["env", "-i", "sh", "-c", "echo $SABOT_ENGINE"])
        self.same(["false"])

    def test_a_script_without_an_interpreter_line_runs_as_in_a_shell(self):
        self.write("plain", "echo plain $1\n").chmod(0o755)
        done = self.run_sabot("run", "--quiet", "./plain", "word")
        self.assertEqual((done.status, done.out, done.err), (0, "plain word\n", ""))

    def test_the_command_needs_no_dashes_before_it_and_keeps_its_own(self):
        done = self.run_sabot("run", "--quiet", "echo", "-n", "--quiet", "--", "x")
        self.assertEqual(done.out, "--quiet -- x")
        done = self.run_sabot("run", "--quiet", "--", "echo", "a", "--", "b")
        self.assertEqual(done.out, "a -- b\n")

    def test_a_closed_stderr_changes_nothing(self):
        done = self.command(["bash", "-c", f"{self.sabot} run -- sh -c 'echo x; exit 3' 2>&-"])
        self.assertEqual((done.status, done.out), (3, "x\n"))


class Statuses(TreeTest):
    """The exit status is the command's own."""

    def test_signals_are_reported_as_a_shell_does(self):
        for name in ("KILL", "TERM", "SEGV", "PIPE"):
            done = self.run_sabot("run", "--quiet", "--", "sh", "-c", f"kill -{name} $$")
            self.assertEqual(done.status, 128 + getattr(signal, "SIG" + name), name)

    def test_a_command_that_cannot_run_is_status_2_and_leaves_no_run(self):
        for word, why in (("no-such-program", "there is no such program in PATH"),
                          ("./gone", "No such file or directory"), ("/tmp", "it is a directory")):
            done = self.run_sabot("run", "--", word)
            self.assertEqual(done.status, 2, word)
            self.assertTrue(done.err.startswith(f"[sabot] cannot run '{word}': {why}"), done.err)
        self.assertFalse((self.folder / "runs").exists())

    def test_a_missing_part_of_the_installation_is_status_2(self):
        alone = self.folder / "bin"
        alone.mkdir()
        os.link(self.sabot, alone / "sabot")
        done = self.command([alone / "sabot", "run", "--engine", "host", "--", "touch", "started"])
        self.assertEqual(done.status, 2)
        self.assertIn("lib/standin/libnccl.so.2' is missing beside this program", done.err)
        self.assertFalse((self.folder / "started").exists())


class Environments(TreeTest):
    """What the command finds in its environment."""

    def child(self, *options, **environment):
        done = self.run_sabot("run", "--quiet", *options, "--", sys.executable, "-c",
                              "import json, os; print(json.dumps(dict(os.environ)))", **environment)
        self.assertEqual(done.status, 0, done.err)
        return json.loads(done.out), done.err

    def test_the_library_stands_in_front_and_nothing_is_replaced(self):
        found, _ = self.child("--engine", "host", LD_PRELOAD="libm.so.6")
        self.assertEqual(found["LD_PRELOAD"],
                         f"{staged_tree.TREE}/lib/standin/libnccl.so.2:libm.so.6")
        self.assertEqual(found["SABOT_ENGINE"], "host")
        self.assertEqual(found["SABOT_RUN_FOLDER"],
                         str((self.folder / "runs/latest").resolve()))

    def test_a_run_within_a_run_joins_it(self):
        done = self.run_sabot("run", "--quiet", "--", self.sabot, "run", "--quiet", "--engine",
                              "host", "--", "printenv", "LD_PRELOAD", "SABOT_RUN_FOLDER")
        preload, folder = done.out.splitlines()
        self.assertEqual(preload, f"{staged_tree.TREE}/lib/standin/libnccl.so.2")
        self.assertEqual(folder, str((self.folder / "runs/latest").resolve()))
        self.assertEqual(len(list((self.folder / "runs").iterdir())), 2, "one run, and latest")

    def test_a_variable_that_cannot_be_read_is_reported_once_and_not_passed_on(self):
        found, err = self.child(SABOT_LOG_RATE="fast", SABOT_SCENARO="x", SABOT_TIMEOUT="30s")
        self.assertEqual(err, "".join(sorted(err.splitlines(keepends=True), key=err.index)))
        self.assertIn("[sabot] SABOT_LOG_RATE='fast' is not a whole number, 0 or more; write for "
                      "instance SABOT_LOG_RATE=100; using 1000\n", err)
        self.assertIn("[sabot] SABOT_SCENARO is not a variable of Sabot; did you mean "
                      "SABOT_SCENARIO?\n", err)
        self.assertEqual(len(err.splitlines()), 2)
        self.assertNotIn("SABOT_LOG_RATE", found)
        self.assertNotIn("SABOT_SCENARO", found)
        self.assertEqual(found["SABOT_TIMEOUT"], "30s")


class RunFolders(TreeTest):
    """Where a run writes, and what it refuses to mix."""

    def test_config_json_says_what_was_decided(self):
        self.run_sabot("run", "--engine", "host", "--run-folder", "r", "--", "true", SABOT_SEED="7")
        config = json.loads((self.folder / "r/config.json").read_text())
        self.assertEqual(config["command"], ["true"])
        self.assertEqual((config["engine"], config["way"]), ("host", "stand-in"))
        self.assertEqual(config["python"], "")
        knobs = {knob["name"]: knob for knob in config["knobs"]}
        self.assertEqual(knobs["SABOT_ENGINE"]["source"], "command line")
        self.assertEqual(knobs["SABOT_SEED"], {"name": "SABOT_SEED", "value": "7",
                                               "source": "environment"})

    def test_the_python_package_is_at_the_end_of_the_commands_path(self):
        package = staged_tree.TREE / "python"
        (package / "sabot").mkdir(parents=True)
        self.addCleanup(shutil.rmtree, package)
        (package / "sabot/__init__.py").write_text("")
        done = self.run_sabot("run", "--quiet", "--engine", "host", "--run-folder", "r", "--",
                              "sh", "-c", "echo $PYTHONPATH", PYTHONPATH="/mine")
        self.assertEqual(done.out, f"/mine:{package}\n")
        config = json.loads((self.folder / "r/config.json").read_text())
        self.assertEqual(config["python"], str(package))

    def test_a_folder_that_holds_a_run_is_refused_and_can_be_joined(self):
        words = ("run", "--engine", "host", "--run-folder", "r", "--", "touch", "started")
        self.assertEqual(self.run_sabot(*words).status, 0)
        (self.folder / "started").unlink()
        again = self.run_sabot(*words)
        self.assertEqual(again.status, 2)
        self.assertIn("already holds a run", again.err)
        self.assertFalse((self.folder / "started").exists())
        joined = self.run_sabot("run", "--engine", "host", "--", "true", SABOT_RUN_FOLDER="r")
        self.assertEqual(joined.status, 0, joined.err)

    def test_a_folder_that_cannot_be_made_is_status_2(self):
        done = self.run_sabot("run", "--run-folder", "/proc/none", "--", "touch", "started")
        self.assertEqual(done.status, 2)
        self.assertIn("cannot create folder '/proc/none'", done.err)
        self.assertFalse((self.folder / "started").exists())


class SharedFolders(TreeTest):
    """Several launchers of one job: each task of srun has its own."""

    def test_the_last_launcher_judges_the_faults_of_all(self):
        fault = "AllReduce[rank=0,nth=1,budget=1]=error(SystemError)"
        job = {"SLURM_JOB_ID": "5", "SLURM_STEP_ID": "0"}
        waiting = subprocess.Popen(
            [self.sabot, "run", "--engine", "real", "--fault", fault, "--require-fired", "--",
             "sh", "-c", f"touch ready; until [ -e go ]; do sleep 0.02; done; "
                         f"exec {staged_tree.PARTS.linked}"],
            cwd=self.folder, env={**self.environment, **job}, stderr=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.assertTrue(until((self.folder / "ready").exists))
        early = self.run_sabot("run", "--engine", "real", "--fault", fault, "--require-fired", "--",
                               "true", **job)
        self.assertEqual(early.status, 0, early.err)
        self.assertIn("[sabot] this part of the run ended: 0 processes attached, 0 calls seen; 1 "
                      "other launcher is at work in the run folder, and the last one reports on "
                      "the faults\n", early.err)
        self.write("go", "")
        _, err = waiting.communicate(timeout=staged_tree.TIMEOUT_S)
        self.assertEqual(waiting.returncode, 0, err)
        self.assertIn(b"run ended: 1 process attached", err)
        self.assertIn(b"faults planned 1, fired 1\n", err)
        self.assertEqual(len(self.journal("runs/slurm-5-0")), 1)


class Signals(TreeTest):
    """The command hears what the launcher hears, once."""

    COUNTER = """
import os, signal, sys
wanted = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
open('ready', 'w').close()
count = 0
timeout = 60
while (got := signal.sigtimedwait(wanted, timeout)) is not None:
    count += 1
    timeout = 0.5
open('count', 'w').write(str(count))
sys.exit(40 + count)
"""

    def test_a_signal_to_the_launcher_reaches_the_command(self):
        self.write("counter.py", self.COUNTER)
        process = subprocess.Popen([self.sabot, "run", "--quiet", "--", sys.executable,
                                    "counter.py"], cwd=self.folder, env=self.environment)
        self.assertTrue(until((self.folder / "ready").exists))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(staged_tree.TIMEOUT_S), 41)

    def test_ctrl_c_on_a_terminal_arrives_once(self):
        self.write("counter.py", self.COUNTER)
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(self.sabot, [self.sabot, "run", "--quiet", "--", sys.executable,
                                   "counter.py"], self.environment)
        self.assertTrue(until((self.folder / "ready").exists))
        os.write(master, b"\x03")
        self.assertTrue(until(lambda: (self.folder / "count").exists()
                              and (self.folder / "count").read_text()))
        self.assertEqual((self.folder / "count").read_text(), "1")
        _, status = os.waitpid(pid, 0)
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(status), 41)

    def test_ctrl_z_without_a_shell_stops_nobody_for_ever(self):
        self.write("counter.py", self.COUNTER)
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(self.sabot, [self.sabot, "run", "--quiet", "--", sys.executable,
                                   "counter.py"], self.environment)
        self.assertTrue(until((self.folder / "ready").exists))
        os.write(master, b"\x1a")
        os.write(master, b"\x03")
        self.assertTrue(until((self.folder / "count").exists))
        _, status = os.waitpid(pid, 0)
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(status), 41)

    def test_a_command_that_dies_of_the_signal_is_128_plus_n(self):
        process = subprocess.Popen([self.sabot, "run", "--quiet", "--", "sh", "-c",
                                    "touch ready; exec sleep 100"], cwd=self.folder,
                                   env=self.environment)
        self.assertTrue(until((self.folder / "ready").exists))
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(staged_tree.TIMEOUT_S), 128 + signal.SIGHUP)


class RealLibrary(TreeTest):
    """The preload over a stand-in of the vendor's library: proof, explanations, refusals."""

    def run_linked(self, *options, **environment):
        return self.run_sabot("run", "--engine", "real", *options, "--",
                              staged_tree.PARTS.linked, **environment)

    def test_a_fault_arrives_and_is_proved(self):
        done = self.run_linked("--require-fired", "--fault",
                               "nic-dies: AllReduce[rank=0,nth=1,budget=1]=error(SystemError)")
        self.assertEqual(done.status, 0, done.err)
        self.assertIn("AllReduce=2\n", done.out)
        self.assertIn("GroupedAllReduce=0\nGroupEnd=0\n", done.out)
        self.assertRegex(done.out, r'last_error=.*fault "nic-dies"')
        self.assertRegex(
            done.err,
            r"\A\[sabot\] engine real \(asked for by --engine; .*libnccl.so.2 linked by '.*'\), "
            r"way preload, run folder runs/.*\n"
            r"\[sabot\] armed: 1 fault .*\n"
            r"\[sabot\] run ended: 1 process attached, \d+ calls seen, faults planned 1, fired 1\n"
            r"\Z")
        line = json.loads(self.journal()[0])
        self.assertEqual(len(self.journal()), 1)
        self.assertEqual({key: line[key] for key in ("fault", "function", "rank", "nth", "code",
                                                     "budget_claim")},
                         {"fault": "nic-dies", "function": "AllReduce", "rank": 0, "nth": 1,
                          "code": "ncclSystemError", "budget_claim": 1})

    def test_a_scenario_file_is_copied_into_the_run(self):
        text = ('sabot = 1\n[[fault]]\nname = "x"\nwhen = { call = "Bcast", nth = 1 }\n'
                'do = { error = "RemoteError" }\n')
        self.write("s.toml", text)
        done = self.run_linked("--scenario", "s.toml")
        self.assertIn("Bcast=6\n", done.out)
        self.assertEqual((self.folder / "runs/latest/scenario.toml").read_text(), text)

    def test_an_unfired_fault_is_explained_and_fails_only_if_asked(self):
        fault = "late: AllReduce[rank=0,nth=99]=error(SystemError)"
        done = self.run_linked("--fault", fault)
        self.assertEqual(done.status, 0)
        self.assertIn('planned 1, fired 0\n[sabot] fault "late" did not fire: ', done.err)
        self.assertEqual(self.run_linked("--fault", fault, "--require-fired").status, 4)
        quiet = self.run_linked("--fault", fault, "--require-fired", "--quiet")
        self.assertEqual(quiet.status, 4)
        self.assertIn('fault "late" did not fire', quiet.err)

    def test_several_fault_options_are_several_faults(self):
        done = self.run_linked("--fault", "a: AllReduce[nth=1]=error(SystemError)", "--fault",
                               "b: Bcast[nth=1]=error(RemoteError)")
        self.assertIn("AllReduce=2\n", done.out)
        self.assertIn("Bcast=6\n", done.out)
        self.assertIn("faults planned 2, fired 2\n", done.err)

    def test_a_budget_holds_over_both_runs_of_one_folder(self):
        words = ["--fault", "a: AllReduce[nth=1,budget=1]=error(SystemError)"]
        self.assertIn("AllReduce=2\n", self.run_linked(*words, SABOT_RUN_FOLDER="r").out)
        self.assertIn("AllReduce=0\n", self.run_linked(*words, SABOT_RUN_FOLDER="r").out)
        self.assertEqual(len(self.journal("r")), 1)

    def test_the_attach_record_says_which_library_and_why(self):
        self.run_linked()
        records = list((self.folder / "runs/latest/attach").glob("*.json"))
        self.assertEqual(len(records), 1)
        record = json.loads(records[0].read_text())
        self.assertTrue(record["attached"])
        self.assertEqual(record["way"], "preload")
        self.assertEqual(record["engine"], "real")
        self.assertTrue(os.path.samefile(record["real_path"],
                                         staged_tree.PARTS.stub_folder + "/libnccl.so.2"))

    def test_the_log_goes_to_the_file_that_is_named(self):
        done = self.run_linked("--log", "calls", "--log-file", "calls.%r.log", RANK="0")
        self.assertEqual(done.status, 0, done.err)
        log = (self.folder / "calls.0.log").read_text()
        self.assertIn("AllReduce", log)
        self.assertNotIn("AllReduce", done.err)

    def test_sabot_disable_is_said_and_no_fault_fires(self):
        done = self.run_linked("--fault", "a: AllReduce[nth=1]=error(SystemError)",
                               SABOT_DISABLE="1")
        self.assertIn("AllReduce=0\n", done.out)
        self.assertIn("[sabot] SABOT_DISABLE is set: no layer is active, and no fault can fire\n",
                      done.err)

    def test_c2_a_program_with_nccl_inside_is_refused_before_it_starts(self):
        for engine in ("host", "real", "auto"):
            done = self.run_sabot("run", "--engine", engine, "--",
                                  staged_tree.PARTS.linked_static)
            self.assertEqual((done.status, done.out), (3, ""), engine)
            self.assertIn("NCCL is linked statically into", done.err)

    def test_c4_calls_through_a_handle_are_reported_as_bypassed(self):
        library = staged_tree.PARTS.stub_folder + "/libnccl.so.2"
        done = self.run_sabot("run", "--engine", "real", "--", staged_tree.PARTS.handle, library)
        self.assertEqual(done.status, 3)
        self.assertIn("AllReduce=0\n", done.out)
        self.assertRegex(done.err, r"\[sabot\] nothing was attached: process .*handle .*: .*"
                                   r"libnccl.so.2 is in this process, but no call reached it")

    def test_a_library_that_is_named_and_missing_is_status_2(self):
        done = self.run_linked("--real-nccl", "/gone/libnccl.so.2")
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertIn("SABOT_REAL_NCCL names '/gone/libnccl.so.2', and there is no such file",
                      done.err)


class Demo(TreeTest):
    """sabot demo: the whole experiment on the host engine, and what it says if it fails."""

    def test_the_experiment_really_happens(self):
        done = self.run_sabot("demo")
        self.assertEqual(done.status, 0, done.out + done.err)
        self.assertEqual(done.out.splitlines()[-1],
                         "demo: planned 1, fired 1, seen by the application 1 (ncclSystemError, "
                         "rank 1, AllReduce, call 3)")
        self.assertIn("  | rank 1 call 5 AllReduce ok sum=11\n", done.out)
        self.assertRegex(done.out, r"The rank that was hit saw:\n    rank 1, AllReduce, call 3: "
                                   r'ncclSystemError: .*"nic-dies"')
        self.assertRegex(done.out, r"Every other rank saw:\n    rank 0, AllReduce, call 3: "
                                   r"ncclRemoteError: ")
        self.assertIn('"fault":"nic-dies"', done.out)

    def test_it_scales_to_more_ranks(self):
        done = self.run_sabot("demo", "--ranks", "4", "--calls", "3", "--folder", "d")
        self.assertEqual(done.status, 0, done.out + done.err)
        for rank in (0, 2, 3):
            self.assertRegex(done.out, rf"    rank {rank}, AllReduce, call 3: ncclRemoteError: ")
        self.assertEqual(len(self.journal("d/broken")), 1)

    def test_a_program_that_computes_wrongly_fails_the_demo(self):
        tree = self.folder / "tree"
        for place in ("bin/sabot", "lib/standin/libnccl.so.2"):
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            os.link(staged_tree.TREE / place, tree / place)
        demo = self.write("tree/share/sabot/demo/allreduce",
                          "#!/bin/sh\necho rank 0 call 1 AllReduce ok sum=4\n")
        demo.chmod(0o755)
        done = self.command([tree / "bin/sabot", "demo"])
        self.assertEqual(done.status, 1)
        self.assertIn("demo: rank 0 call 1 shows the sum 4, not 3\n", done.out)
        self.assertIn("demo: rank 1 call 1 was reported 0 times, not once\n", done.out)

    def test_wrong_numbers_are_refused(self):
        for words in (["--ranks", "1"], ["--calls", "2"], ["--ranks", "x"], ["word"]):
            done = self.run_sabot("demo", *words)
            self.assertEqual((done.status, done.out), (2, ""), words)


if __name__ == "__main__":
    staged_tree.main()
