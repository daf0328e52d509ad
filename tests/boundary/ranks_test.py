"""Faults on the ranks of a job over the host engine: what each is told, and who waits for whom.

python3 ranks_test.py --guest PROGRAM --standin FOLDER

The program (ranks_guest.c) is linked to our stand-in; its ranks are threads. A test names the steps
that each rank does and the fault that is put on them; what it expects is every line that the ranks
print, in order of the ranks. Every run has a deadline.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

PATHS = None
SUCCESS, UNHANDLED_CUDA, SYSTEM, INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, REMOTE = range(7)
DEADLINE = 60


class Run:
    """One run of the program: its lines by rank, its journal and its end."""

    def __init__(self, faults, stream, steps, main=(), ranks=2, scenario="", **variables):
        self.folder = tempfile.mkdtemp(prefix="sabot-ranks-")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SABOT_", "NCCL_"))}
        env.update(SABOT_QUIET="1", SABOT_ENGINE="host", SABOT_RUN_FOLDER=self.folder)
        env.update(LD_LIBRARY_PATH=PATHS.standin, **variables)
        if faults:
            env["SABOT_FAULT"] = faults
        if scenario:
            path = os.path.join(self.folder, "scenario.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(scenario)
            env["SABOT_SCENARIO"] = path
        command = [PATHS.guest, str(ranks), stream, *steps.split()]
        if main:
            command += ["--", *main.split()]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        self.status, self.stderr = done.returncode, done.stderr
        self.lines = sorted(done.stdout.splitlines(), key=lambda line: line.split()[0])

    def of(self, rank):
        return [line[2:] for line in self.lines if line.startswith(f"{rank} ")]

    @property
    def main(self):
        return [line[5:] for line in self.lines if line.startswith("main ")]

    @property
    def journal(self):
        lines = []
        for path in glob.glob(f"{self.folder}/journal/*.jsonl"):
            with open(path, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file]
        return lines


class RanksTest(unittest.TestCase):
    def run_ranks(self, *words, **named):
        run = Run(*words, **named)
        self.assertEqual(run.status, 0, run.stderr + "\n".join(run.lines))
        return run


GOOD = ["init 0", "reduce 0 output 3 3", "destroy 0"]


class Waits(RanksTest):
    def test_a_delay_of_one_caller_delays_all_and_the_result_is_right(self):
        run = self.run_ranks(
            "late: AllReduce[rank=1,nth=1]=delay(300ms,on=host)",
            "null",
            "init reduce destroy",
            GUEST_TIMES="1",
        )
        for rank in (0, 1):
            lines = run.of(rank)
            self.assertEqual([line for line in lines if "took" not in line], GOOD)
            self.assertGreaterEqual(int(lines[3].split()[1]), 250, "the reduction took its time")
        self.assertEqual([line["action"] for line in run.journal], ["delay(300ms,on=host)"])

    def test_a_delay_on_a_stream_holds_the_stream_and_not_the_caller(self):
        run = self.run_ranks(
            "AllReduce[rank=1,nth=1]=delay(400ms)",
            "own",
            "init reduce sync destroy",
            GUEST_TIMES="1",
        )
        lines = run.of(1)
        self.assertEqual(lines[2:5:2], ["reduce 0", "sync 0 output 3 input 2"])
        self.assertLess(int(lines[3].split()[1]), 300)
        self.assertGreaterEqual(int(lines[5].split()[1]), 50)

    def test_a_hang_with_a_time_limit_goes_on_by_itself_on_either_stream(self):
        for stream, steps in (("null", "init reduce destroy"), ("own", "init reduce sync destroy")):
            run = self.run_ranks("AllReduce[rank=1]=hang(200ms)", stream, steps)
            self.assertIn("0 output 3", run.of(0)[1] + run.of(0)[2])
            self.assertEqual(run.of(1)[-1], "destroy 0")

    def test_what_a_rank_hangs_before_init_returns_all_ranks_wait_for(self):
        run = self.run_ranks("init[rank=1]=hang(300ms,on=host)", "null", "init reduce destroy")
        self.assertEqual([run.of(0), run.of(1)], [GOOD, GOOD])

    def test_in_a_group_a_hang_of_the_null_stream_holds_the_outermost_end(self):
        run = self.run_ranks("AllReduce[rank=1,nth=2]=hang(200ms)", "null", "init group destroy")
        self.assertEqual(run.of(1), ["init 0", "group 0 calls 0 0 output 3", "destroy 0"])


class C8AbortUnderAHang(RanksTest):
    """Under an injected hang, abort from any thread returns within its deadline."""

    ABORTED = ["aborted 1 0 in time 1", "aborted 0 0 in time 1"]

    def test_of_a_caller_held_in_its_call(self):
        for action in ("hang(on=host)", "hang"):
            run = self.run_ranks(
                f"stuck: AllReduce[rank=1]={action}",
                "null",
                "init reduce text",
                "fired1 abort1 abort0",
            )
            self.assertEqual(run.main, self.ABORTED)
            self.assertEqual(run.of(1)[1], f"reduce {INTERNAL} output 0 0")
            self.assertIn("when its communicator was ended", run.of(1)[2])
            self.assertNotEqual(run.of(0)[1].split()[1], str(SUCCESS), "its peer is told")

    def test_of_a_stream(self):
        run = self.run_ranks(
            "AllReduce[rank=1]=hang", "own", "init reduce sync", "done2 abort1 abort0"
        )
        self.assertEqual(run.main, self.ABORTED)
        for rank in (0, 1):
            self.assertEqual(run.of(rank)[1], "reduce 0")
            self.assertNotEqual(run.of(rank)[2].split()[1], str(SUCCESS), "cut off, never done")

    def test_of_a_group_held_at_its_end(self):
        run = self.run_ranks("AllReduce[rank=1]=hang", "null", "init group", "fired1 abort1 abort0")
        self.assertEqual(run.main, self.ABORTED)
        self.assertEqual(run.of(1)[1], f"group {INTERNAL} calls 0 0 output 0")

    def test_of_a_rank_whose_peer_never_came(self):
        run = self.run_ranks(
            "AllReduce[rank=1]=skip", "null", "init reduce", "fired1 abort0 abort1"
        )
        self.assertEqual(run.of(1)[1], "reduce 0 output 0 0")
        self.assertNotEqual(run.of(0)[1].split()[1], str(SUCCESS))

    def test_of_the_second_of_two_hangs(self):
        run = self.run_ranks(
            "AllReduce[nth=2]=hang(on=host)", "null", "init reduce reduce", "fired2 abort0 abort1"
        )
        for rank in (0, 1):
            self.assertEqual(
                run.of(rank)[1:], ["reduce 0 output 3 3", f"reduce {INTERNAL} output 0 0"]
            )


class C9TheEndIsClean(RanksTest):
    def test_with_a_stream_held_when_the_process_ends(self):
        run = self.run_ranks("AllReduce=hang", "own", "init reduce", "done2 exit")
        self.assertEqual([run.of(0), run.of(1)], [["init 0", "reduce 0"]] * 2)

    def test_with_a_caller_held_when_the_process_ends(self):
        run = self.run_ranks("AllReduce=hang(on=host)", "null", "init reduce", "fired2 exit")
        self.assertEqual([run.of(0), run.of(1)], [["init 0"]] * 2)

    def test_after_an_injected_error_destroyed_twice(self):
        run = self.run_ranks(
            "AllReduce=error(SystemError)", "null", "init reduce destroy again"
        )
        self.assertEqual(run.of(0)[1:3], [f"reduce {SYSTEM} output 0 0", "destroy 0"])
        self.assertEqual(run.of(0)[3], f"again {INVALID_ARGUMENT}")

    def test_destroy_lets_go_of_a_held_stream_first_and_its_work_is_done(self):
        run = self.run_ranks("AllReduce[rank=1]=hang", "own", "init reduce destroy sync")
        for rank in (0, 1):
            self.assertEqual(run.of(rank)[2], "destroy 0")
            self.assertEqual(run.of(rank)[3], f"sync 0 output 3 input {rank + 1}")

    def test_finalize_too(self):
        run = self.run_ranks("AllReduce[rank=1]=hang", "own", "init reduce finalize destroy")
        self.assertEqual(run.of(1)[2:], ["finalize 0", "destroy 0"])

    def test_a_forked_child_is_free_of_what_its_parent_holds(self):
        run = self.run_ranks(
            "AllReduce[rank=1]=hang", "own", "init reduce 1/fork", "done2 abort1 abort0"
        )
        self.assertIn("fork 0", run.of(1))


class C12InitThatFails(RanksTest):
    def test_an_error_on_one_rank_ends_all_within_the_deadline(self):
        run = self.run_ranks(
            "init[rank=1]=error(SystemError)", "null", "init text", SABOT_TIMEOUT="3s"
        )
        self.assertEqual(run.of(1)[0], f"init {SYSTEM} no comm")
        self.assertIn("(rank 1, CommInitRank, call ", run.of(1)[1])
        self.assertNotEqual(run.of(0)[0].split()[1], str(SUCCESS))
        self.assertIn("rank", run.of(0)[1])

    def test_a_rank_whose_init_is_held_for_good_is_waited_for_no_longer_than_the_deadline(self):
        run = self.run_ranks(
            "init[rank=1]=hang(on=host)", "null", "init text", "join0 exit", SABOT_TIMEOUT="2s"
        )
        self.assertNotEqual(run.of(0)[0].split()[1], str(SUCCESS))


class Replaced(RanksTest):
    def test_exhaust_has_the_code_of_the_shortage_and_says_what_ran_out(self):
        run = self.run_ranks(
            "MemAlloc=exhaust(allocation);CommRegister=exhaust(registration)",
            "null",
            "init memory text register text reduce destroy",
        )
        lines = run.of(0)
        self.assertEqual(lines[1], f"memory {UNHANDLED_CUDA}")
        self.assertTrue(lines[2].startswith("text out of memory, injected by Sabot: fault "), lines)
        self.assertEqual(lines[3], f"register {SYSTEM}")
        self.assertTrue(lines[4].startswith("text registration failed, injected by Sabot: "), lines)
        self.assertEqual(lines[5:], GOOD[1:])

    def test_in_a_group_exhaust_comes_from_the_end(self):
        run = self.run_ranks(
            "AllReduce[nth=2]=exhaust(allocation)", "null", "init group reduce destroy"
        )
        self.assertEqual(run.of(0)[1], f"group {UNHANDLED_CUDA} calls 0 0 output 0")
        self.assertEqual(run.of(0)[2:], GOOD[1:])

    def test_skip_in_a_group_leaves_out_that_call_on_every_rank_alike(self):
        run = self.run_ranks("AllReduce[nth=1]=skip", "null", "init group reduce destroy")
        self.assertEqual(run.of(1), ["init 0", "group 0 calls 0 0 output 3", *GOOD[1:]])

    def test_errors_of_finalize_destroy_and_abort_leave_the_communicator_alive(self):
        for step, function in (("finalize", "CommFinalize"), ("destroy", "CommDestroy")):
            run = self.run_ranks(
                f"{function}[nth=1]=error(SystemError)", "null", f"init {step} reduce {step}"
            )
            self.assertEqual(
                run.of(0), ["init 0", f"{step} {SYSTEM}", GOOD[1], f"{step} 0"], run.stderr
            )


class AsyncErrors(RanksTest):
    def test_on_a_stream_the_call_succeeds_and_the_code_comes_by_polling_and_by_the_next_call(self):
        run = self.run_ranks(
            "AllReduce[rank=1]=async_error(RemoteError)",
            "own",
            "init reduce 1/poll 1/reduce 1/text 1/abort sync",
        )
        lines = run.of(1)
        self.assertEqual(lines[1:4], ["reduce 0", f"poll {REMOTE}", f"reduce {REMOTE}"])
        self.assertIn("(rank 1, AllReduce, call 1)", lines[4])
        self.assertEqual(lines[5], "abort 0")
        for rank in (0, 1):
            self.assertNotEqual(run.of(rank)[-1].split()[1], str(SUCCESS), "the work never ends")

    def test_on_the_null_stream_the_work_is_left_out(self):
        run = self.run_ranks(
            "net: AllReduce[rank=1,nth=1]=async_error(RemoteError)",
            "null",
            "init reduce 1/poll 1/reduce 1/text 1/finalize 1/abort",
        )
        lines = run.of(1)
        self.assertEqual(
            lines[1:4], ["reduce 0 output 0 0", f"poll {REMOTE}", f"reduce {REMOTE} output 0 0"]
        )
        self.assertIn('fault "net"', lines[4])
        self.assertEqual(lines[5:], [f"finalize {REMOTE}", "abort 0"])
        self.assertNotEqual(run.of(0)[1].split()[1], str(SUCCESS), "the abort is noticed")

    def test_after_a_time(self):
        run = self.run_ranks(
            "AllReduce[rank=1,nth=1]=async_error(SystemError,after=300ms)",
            "null",
            "init reduce 1/async 1/poll 1/abort",
        )
        self.assertEqual(run.of(1)[2:4], ["async 0", f"poll {SYSTEM}"])


class Crashes(unittest.TestCase):
    def test_by_signal_exit_code_and_abort_with_the_proof_on_disk(self):
        for action, status in (("SIGKILL", -9), ("SIGSEGV", -11), ("abort", -6), ("17", 17)):
            fault = f"gone: AllReduce[rank=1,nth=2]=crash({action})"
            run = Run(fault, "null", "init reduce reduce")
            self.assertEqual(run.status, status, run.stderr)
            self.assertEqual([line["fault"] for line in run.journal], ["gone"])
            self.assertIn("reduce 0 output 3 3", run.of(1))

    def test_after_the_call_its_peers_have_their_result(self):
        run = Run("AllReduce[rank=1,nth=1]=crash(9,at=after)", "null", "init reduce reduce")
        self.assertEqual(run.status, 9)

    def test_in_init_and_in_a_group(self):
        for call, steps in (
            ("CommInitRank", "init"),
            ("AllReduce", "init group"),
            ("GroupEnd", "init group"),
        ):
            run = Run(f"{call}=crash(21)", "null", steps)
            self.assertEqual(run.status, 21, run.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    for option in ("--guest", "--standin"):
        parser.add_argument(option, required=True)
    PATHS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)
