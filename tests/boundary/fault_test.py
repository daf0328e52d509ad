"""Announced calls, injected faults and the host engine beside a real one, seen from a C program.

python3 fault_test.py --guest PROGRAM --stub LIBRARY --preload LIBRARY --standin LIBRARY

The program (fault_guest.c) is linked to a stub NCCL. It runs either with our stand-in opened by
path and the host engine, as the torch backend does on a laptop, or under the preload with the stub
as the real NCCL, as on a GPU machine.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PATHS = None


def run(part, faults="", folder="", words=(), **variables):
    """The part with the stand-in opened by path, on the host engine."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SABOT_")}
    env.update(
        SABOT_ENGINE="host", SABOT_QUIET="1", LD_LIBRARY_PATH=os.path.dirname(PATHS.stub)
    )
    if faults:
        env["SABOT_FAULT"] = faults
    if folder:
        env["SABOT_RUN_FOLDER"] = folder
    env.update(variables)
    command = [PATHS.guest, part, PATHS.standin, *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def run_real(part, faults="", folder="", words=(), **variables):
    """The part under the preload, with the stub as the real NCCL."""
    where = {"SABOT_ENGINE": "real", "SABOT_REAL_NCCL": PATHS.stub, "LD_PRELOAD": PATHS.preload}
    return run(part, faults, folder, words, **{**where, **variables})


def journal(folder):
    lines = []
    for path in sorted(glob.glob(f"{folder}/journal/*.jsonl")):
        with open(path, encoding="utf-8") as file:
            lines += [json.loads(line) for line in file]
    return lines


def without_circumstances(line):
    """A journal line without what differs from process to process."""
    return {k: v for k, v in line.items() if k not in ("time_ns", "monotonic_ns", "pid", "thread")}


class FaultTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sabot-fault-")
        self.other_folder = tempfile.mkdtemp(prefix="sabot-fault-")

    def lines(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()


class AnnouncedCalls(FaultTest):
    FAULT = "nic-dies: AllReduce[nth=2,comm=c0]=error(SystemError)"

    def test_an_announced_call_leaves_the_same_lines_as_the_same_call_of_nccl(self):
        called = run("called", self.FAULT, self.folder, SABOT_LOG="calls")
        announced = run("announced", self.FAULT, self.other_folder, SABOT_LOG="calls")
        self.assertEqual(self.lines(announced), ["result 0", "result 2", "result 0"])
        self.assertEqual(announced.stdout, called.stdout)
        logged = [line for line in called.stderr.splitlines() if " AllReduce " in line]
        self.assertEqual(len(logged), 4)
        self.assertEqual(announced.stderr.splitlines(), logged)
        ours, theirs = journal(self.other_folder), journal(self.folder)
        self.assertEqual(len(ours), 1)
        self.assertEqual(
            [without_circumstances(line) for line in ours],
            [without_circumstances(line) for line in theirs],
        )

    def test_enter_gives_the_numbers_and_the_decision_and_leave_what_the_application_gets(self):
        done = run("moments", "nic-dies: AllReduce[nth=2]=error(RemoteError)")
        text = 'injected by Sabot: fault "nic-dies" of the command line (rank 0, AllReduce, call 2)'
        self.assertEqual(
            self.lines(done),
            [
                "c0 nth 1 collective 1 rank 0 of 1 bytes 77: kind 0 before 0 result 0 ''",
                "left 0",
                f"c0 nth 2 collective 2 rank 0 of 1 bytes 77: kind 1 before 1 result 6 '{text}'",
                "left 6",
                "c0/s0 nth 1, inner nth 0",
                "out of order 5",
                "inner 0",
                "failed by itself 6",
                "twice 5",
            ],
        )

    def test_an_error_after_the_call_comes_only_if_the_call_itself_succeeded(self):
        done = run("after", "late: AllReduce=error(SystemError,at=after)")
        text = 'injected by Sabot: fault "late" of the command line (rank 0, AllReduce, call '
        self.assertEqual(
            self.lines(done),
            [
                f"before 0 executed 0 given 2 last '{text}1)'",
                f"before 0 executed 2 given 2 last '{text}2)'",
                "before 0 executed 6 given 6 last ''",
            ],
        )

    def test_calls_of_nccl_within_an_announced_call_are_neither_numbered_nor_faulted(self):
        done = run_real("inner", "AllReduce[comm=c0,nth=1]=error(SystemError)", self.folder)
        lines = self.lines(done)
        self.assertEqual(lines[:3], ["inner 0", "left 0", "outer 2"], "the outer one is the first")
        self.assertEqual(
            lines[3:],
            [
                "from the callback 0",
                "announced 6",
                "from the callback 0",
                "real 6",
                "withdrawn 0 fired 2 why_not ''",
            ],
        )
        self.assertEqual([line["comm"] for line in journal(self.folder)], ["c0", "c1", "c0"])

    def test_every_kind_of_fault_says_what_it_asks_of_the_caller(self):
        faults = (
            "AllReduce[nth=1]=skip;AllReduce[nth=2]=corrupt(zero);"
            "AllReduce[nth=3]=corrupt(zero,at=after);AllReduce[nth=4]=exhaust(allocation);"
            "AllReduce[nth=5]=async_error(RemoteError)"
        )
        done = run("kinds", faults, self.folder)
        self.assertEqual(
            self.lines(done),
            [
                "kind 2 before 1 result 0 zeros 0 given 0 changed 0 output zeros 0",
                "kind 3 before 0 result 0 zeros 1 given 0 changed 0 output zeros 1",
                "kind 3 before 0 result 0 zeros 0 given 0 changed 0 output zeros 1",
                "kind 1 before 1 result 1 zeros 0 given 1 changed 0 output zeros 0",
                "kind 0 before 0 result 0 zeros 0 given 0 changed 0 output zeros 0",
                "kind 1 before 1 result 6 zeros 0 given 6 changed 0 output zeros 0",
            ],
        )
        self.assertEqual(len(journal(self.folder)), 5)

    def test_what_does_not_fit_an_announced_call_does_nothing_and_says_why(self):
        faults = "AllReduce[nth=1]=mismatch(count,to=2);AllReduce[nth=2]=corrupt(nan)"
        done = run("announced", faults, self.folder)
        self.assertEqual(self.lines(done), ["result 0", "result 0", "result 0"])
        refused = [line["refused"] for line in journal(self.folder) if "refused" in line]
        self.assertEqual(len(refused), 2)
        self.assertIn("with its own arguments", refused[0])
        self.assertIn("not known to be plain memory", refused[1])

    def test_a_held_call_ends_with_its_communicator(self):
        ended = ["held: kind 1 before 1 result 3", "left 3"]
        lines = self.lines(run("held"))
        self.assertEqual(sorted(lines), sorted(["abort 0", *ended, *ended, lines[-1]]))
        self.assertEqual(lines[-1], "withdrawn 0 fired 2 why_not ''")

    def test_with_sabot_disabled_calls_pass_unnumbered_and_injections_are_refused(self):
        done = run("announced", self.FAULT, SABOT_DISABLE="1", SABOT_LOG="all")
        self.assertEqual(self.lines(done), ["result 0"] * 3)
        self.assertEqual(done.stderr, "")
        done = run("inject", SABOT_DISABLE="1")
        self.assertEqual(done.returncode, 21)
        self.assertIn("switched off by SABOT_DISABLE", done.stderr)

    def test_wrong_arguments_are_named(self):
        lines = self.lines(run("refusals"))
        self.assertRegex(lines[0], r"^4 sabot_call_enter: comm 0x[0-9a-f]+ is neither open ")
        self.assertEqual(lines[1], "4 sabot_call_enter: NCCL has no function 'AllReduse'")
        self.assertRegex(lines[2], "^4 sabot_call_enter: .*outside groups.* GroupStart")
        self.assertEqual(lines[3], "4 sabot_call_enter: size is not that of sabot_call_t")
        self.assertEqual(
            lines[4:9], ["4 again", "4 parent", "0 close", "4 close again", "4 close of NCCL's"]
        )
        text = "\n".join(lines[9:])
        self.assertIn("4 the injection: key 'nht': unknown key; did you mean 'nth'?", text)
        self.assertIn("4 the injection: key 'call': 'GroupStart'", text)
        self.assertIn("4 the injection:2: key 'do': missing in this fault", text)
        self.assertIn("4 the injection: key 'captured': 'CommInitRank' has no stream", text)
        self.assertEqual(lines[-2:], ["4 withdraw", "unknown 1 1"])


class Injections(FaultTest):
    INJECTED = [
        "told: injection 2 fault once AllReduce c1 rank 0 nth 1 collective 1 match 1 result 6",
        "second 6",
        'injected by Sabot: fault "once" of scenario "a document" (rank 0, AllReduce, call 1)',
        "second 0",
        "first 0",
        "told: injection 1 fault nic-dies AllReduce c0 rank 0 nth 2 collective 2 match 2 result 2",
        "first 2",
        'injected by Sabot: fault "nic-dies" of the program (rank 0, AllReduce, call 2)',
        "withdrawn 0 fired 1 why_not 'fault \"never\" did not fire: closest: 4 calls matched "
        "everything but rank (wanted 7, seen 0)'",
        "withdrawn 0 fired 1 why_not ''",
    ]

    def test_injected_faults_fire_tell_and_are_gone_once_withdrawn(self):
        lines = self.lines(run("inject"))
        self.assertEqual(lines[:10], self.INJECTED)
        # Five calls went past the layers after the withdrawal: the next number is 3.
        self.assertRegex(lines[10], "^told: injection 3 fault line-1 AllReduce c0 rank 0 nth 3 ")
        self.assertEqual(lines[11:], ["first 2", "withdrawn 0 fired 1 why_not ''"])

    def test_firings_stand_in_the_journal_as_what_they_are(self):
        self.lines(run("inject", folder=self.folder))
        lines = journal(self.folder)
        self.assertEqual(
            [(line["fault"], line["injection"], line["comm"]) for line in lines],
            [("once", 2, "c1"), ("nic-dies", 1, "c0"), ("line-1", 3, "c0")],
        )
        self.assertEqual(lines[0]["budget_claim"], 1)

    def test_faults_of_the_process_come_first_and_stay_armed(self):
        done = run("inject", "own: AllReduce[comm=c1,nth=2]=error(InternalError)", self.folder)
        # Under a scenario all is numbered: the call before the injection was the first.
        self.assertIn("second 3", self.lines(done))
        self.assertEqual([line["fault"] for line in journal(self.folder)][:2], ["own", "once"])

    def test_a_fault_that_arrives_in_an_open_group_comes_from_its_end(self):
        self.assertEqual(
            self.lines(run("group")),
            [
                "inside 0 end 2 output 0",
                "withdrawn 0 fired 1 why_not ''",
                "inside 0 end 0 output 1",
                "alone 2",
                "withdrawn 0 fired 1 why_not ''",
            ],
        )

    def test_a_forked_child_has_none_of_its_parents_injections_and_may_have_its_own(self):
        self.assertEqual(
            self.lines(run("fork")),
            [
                "child withdraw 4",
                "child 0",
                "child 0 6",
                "withdrawn 0 fired 1 why_not ''",
                "parent 2",
                "withdrawn 0 fired 1 why_not ''",
            ],
        )

    def test_threads_may_inject_and_withdraw_while_others_call(self):
        for done in (run("threads"), run_real("threads")):
            self.assertEqual(
                self.lines(done),
                ["told as often as failed 1, as counted 1, at least half of the calls 1"],
            )


class BesideARealEngine(FaultTest):
    PLAIN = [
        "real 0 output 0",
        "beside 0 output 4",
        "beneath 0 output 4",
        "real 0 output 0",
        "beside 0 output 4",
        "announced 0 output 0",
        "child 0 output 4",
        "beside 0 output 4",
        "grouped 0 output 0",
        "end 0",
    ]

    def test_both_engines_serve_their_own_communicators(self):
        self.assertEqual(self.lines(run_real("beside")), self.PLAIN)

    def test_without_a_preload_the_host_engine_is_found_in_the_opened_library(self):
        done = run_real("beside", "AllReduce[comm=c0]=error(SystemError)", LD_PRELOAD="")
        lines = self.lines(done)
        self.assertEqual(lines[0], "real 0 output 0", "nobody stands before the application's NCCL")
        self.assertEqual(lines[1], "beside 2 output 0")

    def test_both_engines_share_numbers_of_comms_faults_and_log(self):
        fault = (
            "AllReduce[comm=c1,nth=2]=error(SystemError);"
            "AllReduce[comm=c1/s0,nth=1]=error(RemoteError)"
        )
        done = run_real("beside", fault, self.folder, SABOT_LOG="calls")
        expected = list(self.PLAIN)
        expected[4] = "beside 2 output 0"
        expected[5] = "announced 6 output 0"
        self.assertEqual(self.lines(done), expected)
        self.assertEqual(len(journal(self.folder)), 2)
        self.assertIn("[sabot] rank 0 AllReduce #3 count=4 float32 sum comm=c1 ", done.stderr)
        self.assertIn(" comm=c0 stream=0x0 group=1.1\n", done.stderr)
        self.assertEqual(len(glob.glob(f"{self.folder}/attach/*.json")), 1)

    def test_a_group_of_the_real_engine_neither_delays_nor_drops_a_fault_of_the_other(self):
        fault = "AllReduce[comm=c1,nth=3]=error(SystemError)"
        expected = list(self.PLAIN)
        expected[7] = "beside 2 output 0"
        self.assertEqual(self.lines(run_real("beside", fault)), expected)

    def test_a_later_copy_of_ours_answers_with_the_owners_functions(self):
        fault = "AllReduce[comm=c1,nth=2]=error(SystemError)"
        done = run_real("beside", fault, self.folder, ["asked"])
        self.assertEqual(self.lines(done)[4], "beside 2 output 0")
        self.assertEqual(len(glob.glob(f"{self.folder}/attach/*.json")), 1)
        self.assertEqual(self.lines(run_real("inject", words=["asked"]))[:10], Injections.INJECTED)

    def test_without_an_engine_every_function_of_nccl_refuses(self):
        done = run_real("beside", SABOT_REAL_NCCL="/nowhere/libnccl.so.2")
        self.assertEqual(done.returncode, 20)
        self.assertIn("/nowhere/libnccl.so.2", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    for option in ("--guest", "--stub", "--preload", "--standin"):
        parser.add_argument(option, required=True)
    PATHS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)
