#!/usr/bin/env python3
"""The examples for torch.distributed, run on CPUs as their first lines say, with the transcript.

    examples_test.py --sabot PATH [TEST…]        PATH: the command `sabot` of a staged tree
"""

import argparse
import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import job  # noqa: E402

OPTIONS = argparse.Namespace(sabot="")
JOB_S = 180  # a restart under torchrun imports torch four times
CONFIGURATION = {"PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def example(name):
    return ROOT / "examples" / "torch" / name


class Examples(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="examples-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def run_example(self, *words, under=()):
        return job.command([*under, *words], JOB_S, self.folder, **CONFIGURATION)

    def expect_lines(self, outcome, *patterns):
        """Each pattern matches a line, whatever the order: ranks print when they get there."""
        for pattern in patterns:
            self.assertTrue(any(re.fullmatch(pattern, line) for line in outcome.lines),
                            f"no line is {pattern}\n{outcome}")


class ElasticResume(Examples):
    def train(self, *under):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                    "--max-restarts", "1", "--monitor-interval", "0.1"]
        return self.run_example(*torchrun, example("elastic_resume.py"), under=under)

    def weights(self, outcome):
        return set(re.findall(r"done after step 12, weights (\w{16})", outcome.text))

    def test_a_job_that_lost_a_collective_resumes_and_ends_with_the_weights_of_a_calm_run(self):
        calm = self.train()
        self.assertEqual(calm.status, 0, calm)
        scenario = ROOT / "examples" / "scenarios" / "elastic-resume.toml"
        broken = self.train(OPTIONS.sabot, "run", "--engine", "host", "--require-fired",
                            "--scenario", scenario, "--")
        self.assertEqual(broken.status, 0, broken)
        self.expect_lines(
            broken, "attempt 0 rank 0: begins after step 0",
            r"attempt 0 rank 1: step 8 failed: DistBackendError: ncclSystemError: System call.*",
            "attempt 1 rank 0: begins after step 7", "attempt 1 rank 1: begins after step 7",
            r".*Last error:", r".*injected by Sabot: fault \"lost-gradients\" of .*",
            r"\[sabot\] run ended: .*faults planned 1, fired 1")
        self.assertEqual(len(self.weights(calm)), 1, calm)
        self.assertEqual(self.weights(broken), self.weights(calm), broken)


    def test_a_loop_that_goes_on_after_a_failed_step_ends_well_with_other_weights(self):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                    "--monitor-interval", "0.1"]
        broken = self.run_example(
            *torchrun, example("elastic_resume.py"), "--keep-going", "--timeout", "20",
            under=[OPTIONS.sabot, "run", "--engine", "host", "--require-fired", "--fault",
                   "AllReduce[rank=1,nth=8]=error(SystemError)", "--"])
        self.assertEqual(broken.status, 0, broken)
        self.expect_lines(broken, "attempt 0 rank 0: step 7 of 12, loss .*",
                          "attempt 0 rank 1: step 8 failed: DistBackendError: .*",
                          "attempt 0 rank 0: step 12 failed: DistBackendError: .*")
        self.assertFalse(self.weights(broken) & self.weights(self.train()), broken)


@unittest.skipUnless(importlib.util.find_spec("torchft"), "the package torchft is not installed")
class ReplicaLoss(Examples):
    def weights(self, *under):
        outcome = self.run_example(sys.executable, example("replica_loss.py"), under=under)
        self.assertEqual(outcome.status, 0, outcome)
        found = re.findall(r"replica (\d): done after step 12, weights (\w{16})", outcome.text)
        self.assertEqual(sorted(replica for replica, _ in found), ["0", "1"], outcome)
        return {weights for _, weights in found}, outcome

    def test_an_error_costs_one_step_and_nothing_of_the_result(self):
        calm, _ = self.weights()
        broken, outcome = self.weights(
            OPTIONS.sabot, "run", "--engine", "host", "--require-fired", "--fault",
            "AllReduce[world_rank=1,nth=11]=error(SystemError)", "--")
        self.expect_lines(outcome, "attempt 0 replica 1: step 6 of 12 discarded by 2",
                          "attempt 0 replica 1: step 6 of 12 committed by 2")
        self.assertEqual(broken, calm, outcome)


class HangDetective(Examples):
    def test_the_rank_that_left_out_a_collective_is_named_by_the_error_and_by_the_recorder(self):
        outcome = self.run_example(sys.executable, example("hang_detective.py"), "--timeout", "3",
                                   under=[OPTIONS.sabot, "run", "--engine", "host", "--"])
        self.assertEqual(outcome.status, 0, outcome)
        self.expect_lines(
            outcome, "rank 1: has no more data after all_reduce 4",
            r"rank 0: all_reduce 5 failed after 3 s: DistBackendError: \[Rank 0\] Watchdog caught"
            r" collective operation timeout: WorkSabot\(SeqNum=5, OpType=ALLREDUCE, NumelIn=1024,"
            r" NumelOut=1024, Timeout\(ms\)=3000\) ran for \d+ milliseconds before timing out\."
            r" Rank 1 is behind: it has entered 4 collectives of this group, rank 0 5\.",
            r"flight recorder: rank 1 never entered number 5 of group 0, \w+:all_reduce; its last"
            r" is number 4; waiting: \[0\]")

    def test_the_analysis_of_pytorch_reads_the_records_and_names_the_same_rank(self):
        program = [sys.executable, example("hang_detective.py"), "--timeout", "3"]
        self.assertEqual(self.run_example(*program, "--records", "records").status, 0)
        analysis = self.run_example(
            sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "records", "-p",
            "record-of-rank-")
        self.expect_lines(analysis, "Not all ranks joining collective, sequence number: 5",
                          r"missing ranks: \{1\}")

    def test_of_three_ranks_the_first_can_be_the_missing_one(self):
        outcome = self.run_example(sys.executable, example("hang_detective.py"), "--timeout", "3",
                                   "--ranks", "3", "--short", "0")
        self.assertEqual(outcome.status, 0, outcome)
        self.expect_lines(outcome, r"flight recorder: rank 0 never entered .*; waiting: \[1, 2\]")


class ErrorMatrix(Examples):
    def test_every_code_of_every_function_raises_what_pytorch_raises_for_nccl(self):
        outcome = self.run_example(sys.executable, example("error_matrix.py"))
        self.assertEqual(outcome.status, 0, outcome)
        kinds = {"AllReduce": "DistBackendError", "Broadcast": "DistBackendError",
                 "Reduce": "DistBackendError", "AllGather": "DistBackendError",
                 "ReduceScatter": "DistBackendError", "AlltoAll": "RuntimeError",
                 "CommInit": "DistBackendError", "CommDestroy": "DistBackendError"}
        for function, kind in kinds.items():
            rows = [line.split() for line in outcome.lines if line.startswith(f"{function} ")]
            self.assertEqual(len(rows), 8, outcome)
            caught = "yes" if kind == "DistBackendError" else "no"
            for row in rows:
                if row[1] != "InProgress":  # no error for NCCL
                    self.assertEqual(row[2:4], [kind, caught], outcome)
        self.expect_lines(
            outcome, r"AllReduce     SystemError        DistBackendError yes  ncclSystemError:.*",
            r"torch .*, backend sabot: \d+ exceptions; `except DistBackendError` misses \d of them")


class AllReduce(Examples):
    def test_the_experiment_of_the_readme_runs_on_cpus(self):
        outcome = self.run_example(
            sys.executable, example("allreduce.py"), "--backend", "sabot", "--ranks", "2",
            under=[OPTIONS.sabot, "run", "--engine", "host", "--scenario",
                   ROOT / "examples" / "scenarios" / "allreduce-system-error.toml", "--"])
        self.assertEqual(outcome.status, 1, outcome)
        self.expect_lines(
            outcome, "rank 1 call 2 all_reduce ok sum=5",
            r"torch\.distributed\.DistBackendError: NCCL error in: .*",
            r"ncclSystemError: System call .*",
            r"injected by Sabot: fault \"nic-dies\" of scenario .*",
            r"\[sabot\] run ended: .*faults planned 1, fired 1")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sabot", required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.sabot = os.path.abspath(OPTIONS.sabot)
    unittest.main(argv=sys.argv[:1] + rest)
