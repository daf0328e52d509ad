#!/usr/bin/env python3
"""The cases of docs/cases.md as they meet a training script: torch.distributed over "sabot".

    cases_test.py [--sabot PATH]        PATH: the command `sabot` of a staged tree, for C19

Each class is named after its case. Ranks are processes; every job has a deadline, and what must
happen "within seconds" is bounded by SECONDS. Run with the staged package on PYTHONPATH.
"""

import argparse
import datetime
import os
import pathlib
import pickle
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import job  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from job import say, told  # noqa: E402

SECONDS = 10  # far above what is measured, far below any timeout
OPTIONS = argparse.Namespace(sabot="")
CPU = torch.device("cpu")


def wait_until(condition):
    """Polls for something that another thread or process does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen in time")
        time.sleep(0.01)


def last_line(text):
    return text.strip().splitlines()[-1]


class CaseC8(unittest.TestCase):
    """Abort hangs when one rank aborts, while a rank is stuck, or from another thread."""

    def test_an_abort_from_another_thread_frees_a_rank_that_is_stuck_in_a_collective(self):
        def body(rank, folder):
            job.join(rank, folder, 2)
            dist.all_reduce(torch.ones(1))
            if rank == 1:  # never takes part; ends when rank 0 has
                wait_until(lambda: os.path.exists(f"{folder}/freed"))
                return
            stuck = threading.Thread(target=lambda: say(told(dist.all_reduce, torch.ones(1))))
            stuck.start()
            backend = dist.group.WORLD._get_backend(CPU)
            wait_until(lambda: backend._get_sequence_number_for_group() == 2)
            started = time.monotonic()
            backend.abort()
            stuck.join(SECONDS)
            say(stuck.is_alive(), time.monotonic() - started < SECONDS)
            pathlib.Path(f"{folder}/freed").touch()
            say(told(dist.all_reduce, torch.ones(1)))

        first = job.run_ranks(2, body)[0]
        self.assertEqual(first.status, 0, first)
        self.assertIn("DistBackendError: NCCL communicator was aborted on rank 0.", first.lines[0])
        self.assertEqual(first.lines[1], "False True", first)
        self.assertIn("DistBackendError: NCCL communicator was aborted on rank 0.", first.lines[2])

    def test_the_abort_of_one_rank_ends_the_wait_of_the_other(self):
        def body(rank, folder):
            job.join(rank, folder, 2)
            dist.all_reduce(torch.ones(1))
            if rank == 0:
                dist.group.WORLD._get_backend(CPU).abort()
                wait_until(lambda: os.path.exists(f"{folder}/told"))
            else:
                say(told(dist.all_reduce, torch.ones(1)))
                pathlib.Path(f"{folder}/told").touch()

        outcomes = job.run_ranks(2, body)
        self.assertEqual([outcome.status for outcome in outcomes], [0, 0], outcomes[1])
        self.assertIn("ncclRemoteError", outcomes[1].text)
        self.assertIn("rank 0", last_line(outcomes[1].text))


LIFE = """
import os, sys
import torch, torch.distributed as dist, sabot.torch
rank, folder, end = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("sabot", init_method=f"file://{folder}/store", rank=rank, world_size=2)
group = dist.new_group([0, 1])
dist.all_reduce(torch.ones(8))
dist.all_reduce(torch.ones(8), group=group)
if end == "after an error":
    with sabot.inject("AllReduce", error="SystemError", required=True):
        try:
            dist.all_reduce(torch.ones(8))
        except dist.DistBackendError:
            pass
if end == "twice":
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.shutdown()
    backend.shutdown()
if end in ("twice", "destroyed", "after an error"):
    dist.destroy_process_group()
work = dist.all_reduce(torch.ones(8), async_op=True) if end == "under way" else None
"""


class CaseC9(unittest.TestCase):
    """The end of a process with communicators in any state crashes or hangs."""

    def expect_clean_end(self, end):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = [None, None]

            def run(rank):
                outcomes[rank] = job.command(
                    [sys.executable, "-c", LIFE, rank, folder, end], folder=folder,
                    TORCH_CPP_LOG_LEVEL="ERROR", PYTHONWARNINGS="ignore")

            threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for outcome in outcomes:
            self.assertEqual((outcome.status, outcome.text), (0, ""), outcome)

    def test_groups_that_are_still_open(self):
        self.expect_clean_end("open")

    def test_groups_that_were_destroyed(self):
        self.expect_clean_end("destroyed")

    def test_groups_that_were_shut_down_twice_before(self):
        self.expect_clean_end("twice")

    def test_after_an_injected_error(self):
        self.expect_clean_end("after an error")

    def test_with_an_operation_under_way(self):
        self.expect_clean_end("under way")


class CaseC10(unittest.TestCase):
    """In progress is taken for an error."""

    def test_a_rank_that_comes_late_is_waited_for(self):
        def body(rank, folder):
            if rank == 1:
                wait_until(lambda: os.path.exists(f"{folder}/waiting"))
                time.sleep(0.5)  # the others are in progress meanwhile
            else:
                pathlib.Path(f"{folder}/waiting").touch()
            job.join(rank, folder, 2)
            work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
            work.wait()
            say(work.is_completed(), told(dist.destroy_process_group) == "")

        for outcome in job.run_ranks(2, body):
            self.assertEqual((outcome.status, outcome.lines), (0, ["True True"]), outcome)


class CaseC11(unittest.TestCase):
    """A hang inside a group of calls, and nothing tracks it."""

    def test_a_batch_that_never_ends_is_told_with_the_rank_and_stands_in_the_flight_recorder(self):
        def body(rank, folder):
            os.environ["TORCH_FR_DUMP_TEMP_FILE"] = f"{folder}/record-"
            job.join(rank, folder, 2, timeout=datetime.timedelta(seconds=2))
            dist.all_reduce(torch.ones(1))
            if rank == 1:  # sends nothing
                wait_until(lambda: os.path.exists(f"{folder}/told"))
                return
            batch = [dist.P2POp(dist.irecv, torch.ones(4), 1),
                     dist.P2POp(dist.isend, torch.ones(4), 1)]
            say(told(lambda: [work.wait() for work in dist.batch_isend_irecv(batch)]))
            record = pathlib.Path(f"{folder}/record-0")
            wait_until(record.exists)
            entries = pickle.loads(record.read_bytes())["entries"]
            say([(entry["profiling_name"], entry["state"]) for entry in entries][1:])
            pathlib.Path(f"{folder}/told").touch()

        outcome = job.run_ranks(2, body)[0]
        self.assertEqual(outcome.status, 0, outcome)
        self.assertIn("Watchdog caught collective operation timeout", outcome.text)
        self.assertIn("ran for", outcome.text)
        self.assertIn("rank 1", outcome.text.lower())
        self.assertIn("'started'", outcome.lines[-1])


class CaseC14(unittest.TestCase):
    """A peer dies and the others see a timeout, or nothing."""

    def test_survivors_are_told_which_rank_died_within_seconds(self):
        def body(rank, folder):
            job.join(rank, folder, 3)
            dist.all_reduce(torch.ones(1))
            if rank == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            started = time.monotonic()
            say(told(dist.all_reduce, torch.ones(1 << 16)))
            say(time.monotonic() - started < SECONDS)

        outcomes = job.run_ranks(3, body)
        self.assertEqual([outcome.status for outcome in outcomes], [0, 0, -signal.SIGKILL])
        for survivor in outcomes[:2]:
            self.assertIn("DistBackendError", survivor.lines[0])
            self.assertIn("ncclRemoteError", survivor.text)
            self.assertIn("rank 2", survivor.text)
            self.assertEqual(survivor.lines[-1], "True", survivor)

    def test_a_receiver_is_told_that_the_sender_died(self):
        def body(rank, folder):
            job.join(rank, folder, 2)
            dist.all_reduce(torch.ones(1))
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            say(told(dist.recv, torch.ones(4), 1))

        outcome = job.run_ranks(2, body)[0]
        self.assertEqual(outcome.status, 0, outcome)
        self.assertIn("rank 1", last_line(outcome.text), outcome)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index


class CaseC17(unittest.TestCase):
    """Fork after the first call: the workers of a data loader."""

    def test_workers_of_a_data_loader_neither_hang_nor_use_up_a_fault(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2)
            with sabot.inject("AllReduce", nth=2, error="SystemError", required=True) as fault:
                dist.all_reduce(torch.ones(1))
                loader = torch.utils.data.DataLoader(Numbers(), num_workers=2)
                say(sum(int(batch) for batch in loader), fault.fired)
                say(told(dist.all_reduce, torch.ones(1)) != "", fault.fired)
            dist.all_reduce(torch.ones(1))
            dist.destroy_process_group()

        for outcome in job.run_ranks(2, body):
            self.assertEqual((outcome.status, outcome.lines), (0, ["28 0", "True 1"]), outcome)

    def test_a_child_that_ends_as_usual_leaves_its_parents_groups_alone(self):
        def body(rank, folder):
            job.join(rank, folder, 2)
            dist.all_reduce(torch.ones(1))
            child = os.fork()
            if child == 0:
                dist.destroy_process_group()
                os._exit(0)
            say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            x = torch.ones(1)
            dist.all_reduce(x)
            say(x.item())
            dist.destroy_process_group()

        for outcome in job.run_ranks(2, body):
            self.assertEqual((outcome.status, outcome.lines), (0, ["0", "2.0"]), outcome)


class CaseC19(unittest.TestCase):
    """A fault that never fires makes a test that tests nothing."""

    def test_a_required_injection_that_did_not_fire_raises_and_says_what_came_closest(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 1)

            def block():
                with sabot.inject("AllReduce", nth=9, error="SystemError", required=True):
                    dist.all_reduce(torch.ones(1))

            say(told(block))
            dist.destroy_process_group()

        (outcome,) = job.run_ranks(1, body)
        self.assertIn("FaultNotFired: 'AllReduce[nth=9]=error(SystemError)' did not fire on this"
                      " rank", outcome.text)
        self.assertIn("nth", outcome.text.split("on this rank")[1])

    def test_a_run_that_requires_its_faults_fails_and_says_what_came_closest(self):
        if not OPTIONS.sabot:
            self.skipTest("needs --sabot PATH")
        program = (
            "import torch, torch.distributed as dist\n"
            "dist.init_process_group('sabot', store=dist.HashStore(), rank=0, world_size=1)\n"
            "dist.all_reduce(torch.ones(1))\n")
        with tempfile.TemporaryDirectory() as folder:
            outcome = job.command(
                [os.path.abspath(OPTIONS.sabot), "run", "--engine", "host", "--require-fired",
                 "--fault", "AllReduce[rank=7]=error(SystemError)", "--", sys.executable, "-c",
                 program],
                folder=folder)
        self.assertEqual(outcome.status, 4, outcome)
        self.assertIn("did not fire: closest: 1 call matched everything but rank", outcome.text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sabot", default="")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
