#!/usr/bin/env python3
"""Proxies around other backends, "sabot:gloo" above all: results, announced calls, faults, the end.

    proxy_test.py [TEST…]

gloo itself is the control: whatever it answers, the proxy must answer too. Where gloo has no
feature to pass on (coalescing), a proxy around "sabot" is used. Run with the staged package on
PYTHONPATH.
"""

import copy
import datetime
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"

import job  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from job import say, told  # noqa: E402

CPU = torch.device("cpu")
DISTRIBUTED_ERROR = (
    r"DistBackendError: NCCL error in: sabot/csrc/operations\.cpp:\d+, unhandled system error"
    r" \(run with NCCL_DEBUG=INFO for details\), NCCL version 2\.30\.7\n"
    r"ncclSystemError: System call \(e\.g\. socket, malloc\) or external library call failed or"
    r" device error\. \nLast error:\ninjected by Sabot: fault \"line-1\" of the program"
    r" \(rank {rank}, {function}, call {number}\)")
PLAIN_ERROR = (
    r"RuntimeError: NCCL Error 2: unhandled system error \(run with NCCL_DEBUG=INFO for details\)\n"
    r"Last error:\ninjected by Sabot: fault \"line-1\" of the program"
    r" \(rank {rank}, {function}, call {number}\)")


def pattern(text, **values):
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def wait_for(path):
    deadline = time.monotonic() + job.DEADLINE_S
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise AssertionError(f"{path} did not appear")
        time.sleep(0.01)


def logged(folder):
    """From here on this rank's calls are logged to a file; before Sabot is first used."""
    os.environ.update(SABOT_LOG="calls", SABOT_LOG_FILE=f"{folder}/log-%r")


def calls(folder, rank):
    """The logged lines of a rank without the mark, the addresses and the rank."""
    lines = pathlib.Path(f"{folder}/log-{rank}").read_text().splitlines()
    return [re.sub(rf"^\[sabot\] rank {rank} | stream=0x0", "", line) for line in lines]


class Operations:
    """Every operation on tensors of one type; each returns what must have gloo's values."""

    REDUCTIONS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR")

    def __init__(self, rank, size, dtype):
        self.rank, self.size, self.dtype = rank, size, dtype

    def tensor(self, elements, base=1):
        return (torch.arange(elements) + base + 3 * self.rank).to(self.dtype)

    def zeros(self, elements):
        return torch.zeros(elements, dtype=self.dtype)

    def for_each_rank(self, elements):
        return [self.tensor(elements, 10 * i) for i in range(self.size)]

    def changed(self, function, *arguments, **options):
        subject = self.tensor(6)
        function(subject, *arguments, **options)
        return [subject]

    def all_gather(self, group):
        outputs = [self.zeros(5) for _ in range(self.size)]
        dist.all_gather(outputs, self.tensor(5), group=group)
        return outputs

    def all_gather_into_tensor(self, group):
        output = self.zeros(5 * self.size)
        dist.all_gather_into_tensor(output, self.tensor(5), group=group)
        return [output]

    def all_gather_coalesced(self, group):
        outputs = [[self.zeros(2), self.zeros(3)] for _ in range(self.size)]
        dist.all_gather_coalesced(outputs, [self.tensor(2), self.tensor(3, 7)], group=group)
        return sum(outputs, [])

    def all_reduce_coalesced(self, group):
        both = [self.tensor(2), self.tensor(3, 7)]
        dist.all_reduce_coalesced(both, group=group)
        return both

    def gather(self, group):
        outputs = [self.zeros(4) for _ in range(self.size)] if self.rank == 1 else None
        dist.gather(self.tensor(4), outputs, dst=1, group=group)
        return outputs or []

    def scatter(self, group):
        output = self.zeros(4)
        inputs = self.for_each_rank(4) if self.rank == 1 else None
        dist.scatter(output, inputs, src=1, group=group)
        return [output]

    def reduce_scatter(self, group):
        output = self.zeros(3)
        dist.reduce_scatter(output, self.for_each_rank(3), group=group)
        return [output]

    def reduce_scatter_tensor(self, group):
        output = self.zeros(3)
        dist.reduce_scatter_tensor(output, self.tensor(3 * self.size), group=group)
        return [output]

    def all_to_all_single(self, group):
        output = self.zeros(2 * self.size)
        dist.all_to_all_single(output, self.tensor(2 * self.size), group=group)
        return [output]

    def all_to_all_single_uneven(self, group):
        sizes = [1 + (self.rank + i) % 2 for i in range(self.size)]
        output = self.zeros(sum(sizes))
        dist.all_to_all_single(output, self.tensor(sum(sizes)), sizes, sizes, group=group)
        return [output]

    def all_to_all(self, group):
        outputs = [self.zeros(2) for _ in range(self.size)]
        dist.all_to_all(outputs, self.for_each_rank(2), group=group)
        return outputs

    def ring(self, group):
        received = self.zeros(4)
        work = dist.isend(self.tensor(4), (self.rank + 1) % self.size, group=group, tag=5)
        dist.recv(received, (self.rank - 1) % self.size, group=group, tag=5)
        work.wait()
        return [received]

    def from_anybody(self, group):
        if self.rank != 0:
            dist.send(self.tensor(2), 0, group=group)
            return []
        total, sources = self.zeros(2), []
        for _ in range(self.size - 1):
            received = self.zeros(2)
            sources.append(dist.recv(received, group=group))
            total += received
        return [total, torch.tensor(sorted(sources))]

    def batch(self, group):
        received = self.zeros(4)
        pair = [dist.P2POp(dist.isend, self.tensor(4), (self.rank + 1) % self.size, group),
                dist.P2POp(dist.irecv, received, (self.rank - 1) % self.size, group)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()
        return [received]

    def objects(self, group):
        gathered = [None] * self.size
        dist.all_gather_object(gathered, {"rank": self.rank}, group=group)
        return [torch.tensor([item["rank"] for item in gathered])]

    def sparse(self, group):
        subject = torch.sparse_coo_tensor([[self.rank, 3]], self.tensor(2), (4,))
        dist.all_reduce(subject, group=group)
        return [subject.to_dense()]

    def barrier(self, group):
        dist.barrier(group=group)
        return []

    def broadcast(self, group):
        return self.changed(dist.broadcast, 1, group=group)

    def reduce(self, group):
        return self.changed(dist.reduce, 1, group=group)

    def table(self):
        """[(name, body(group))]"""
        rows = [(name, getattr(self, name)) for name in (
            "all_gather", "all_gather_into_tensor", "all_gather_coalesced", "all_reduce_coalesced",
            "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all_single",
            "all_to_all_single_uneven", "all_to_all", "ring", "from_anybody", "batch", "objects",
            "sparse", "barrier", "broadcast", "reduce")]
        for name in self.REDUCTIONS:
            op = getattr(dist.ReduceOp, name)
            rows.append((f"all_reduce {name}", lambda group, op=op: self.changed(
                dist.all_reduce, op, group=group)))
        return rows


def answer(body, group):
    """Class and text of an error without its counters and places, or the values."""
    try:
        return [(str(t.dtype), t.tolist()) for t in body(group)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Results(unittest.TestCase):
    maxDiff = None

    def test_every_operation_answers_what_gloo_answers(self):
        def body(rank, folder):
            job.join(rank, folder, 3, backend="gloo")
            ours = dist.new_group(backend="sabot:gloo")
            same = 0
            for dtype in (torch.float32, torch.int64, torch.float64, torch.uint8, torch.bfloat16):
                for name, operation in Operations(rank, 3, dtype).table():
                    theirs = answer(operation, dist.group.WORLD)
                    mine = answer(operation, ours)
                    if theirs == mine:
                        same += isinstance(theirs, list)
                    else:
                        say(name, dtype, theirs, mine)
            say(same)
            dist.destroy_process_group()

        for outcome in job.run_ranks(3, body):
            self.assertEqual(outcome.status, 0, outcome)
            self.assertEqual(len(outcome.lines), 1, outcome)
            self.assertGreater(int(outcome.lines[0]), 80, outcome)

    def test_errors_of_gloo_are_gloos_own_and_stand_in_the_log(self):
        def body(rank, folder):
            logged(folder)
            job.join(rank, folder, 2, backend="gloo")
            ours = dist.new_group(backend="sabot:gloo")
            for group in (dist.group.WORLD, ours):
                backend = group._get_backend(CPU)
                # Of which gloo tells only who waits.
                say(told(dist.all_reduce, torch.zeros(2), dist.ReduceOp.BAND, group=group))
                say(told(backend.allreduce, [torch.zeros(2), torch.zeros(2).half()]))
                say(told(backend.send, [], 1, 0))
            told(dist.barrier)  # nobody goes while another one still connects
            say("\n".join(["log:", *calls(folder, rank)]))

        for outcome in job.run_ranks(2, body):
            self.assertEqual(outcome.status, 0, outcome)
            answers, log = outcome.text.split("log:\n")
            answers = answers.splitlines()
            half = len(answers) // 2
            self.assertEqual(answers[:half], answers[half:], outcome)
            self.assertTrue(all("Error: " in line for line in answers), outcome)
            returned = [line for line in log.splitlines() if " returned " in line]
            self.assertEqual([re.sub(" count.* returned", ":", line) for line in returned], [
                "AllReduce #2: ncclSystemError", "Send #1: ncclSystemError"], outcome)

    def test_a_step_of_ddp_ends_with_gloos_weights(self):
        def body(rank, folder):
            job.join(rank, folder, 2, backend="gloo")
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 1))
            ends = []
            for group in (dist.group.WORLD, dist.new_group(backend="sabot:gloo")):
                replica = torch.nn.parallel.DistributedDataParallel(
                    copy.deepcopy(model), process_group=group)
                optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
                for step in range(3):
                    optimizer.zero_grad()
                    replica(torch.full((2, 8), 1.0 + rank + step)).sum().backward()
                    optimizer.step()
                ends.append(torch.cat([p.detach().flatten() for p in replica.parameters()]))
            say(torch.equal(*ends), ends[0].isfinite().all().item())

        for outcome in job.run_ranks(2, body):
            self.assertEqual((outcome.status, outcome.lines), (0, ["True True"]), outcome)


class Announced(unittest.TestCase):
    """What NCCL would have got."""

    maxDiff = None

    def log_of(self, size, body):
        def with_log(rank, folder):
            logged(folder)
            body(rank, folder)
            say("\n".join(calls(folder, rank)))

        outcomes = job.run_ranks(size, with_log)
        for outcome in outcomes:
            self.assertEqual(outcome.status, 0, outcome)
        return [outcome.lines for outcome in outcomes]

    def test_each_operation_is_one_call(self):
        wanted = {"all_gather", "all_gather_into_tensor", "all_reduce_coalesced", "gather",
                  "scatter", "reduce_scatter", "all_to_all_single", "all_to_all_single_uneven",
                  "ring", "sparse", "barrier", "broadcast", "reduce", "all_reduce SUM",
                  "all_reduce BOR"}

        def body(rank, folder):
            job.join(rank, folder, 2, backend="sabot:gloo")
            for name, operation in Operations(rank, 2, torch.int32).table():
                if name in wanted:
                    operation(dist.group.WORLD)
            dist.destroy_process_group()

        first, second = self.log_of(2, body)
        self.assertEqual(first, [
            "GetUniqueId #1",
            "CommInitRankConfig #1",
            "AllGather #1 count=5 int32 comm=c0",
            "AllGather #2 count=5 int32 comm=c0",
            "AllReduce #1 count=5 int32 sum comm=c0 in-place",
            "Send #1 count=4 int32 peer=1 comm=c0",
            "Recv #1 count=4 int32 peer=1 comm=c0",
            "ReduceScatter #1 count=3 int32 sum comm=c0",
            "AlltoAll #1 count=2 int32 comm=c0",
            "AlltoAll #2 count=1 int32 comm=c0",
            "Send #2 count=4 int32 peer=1 comm=c0",
            "Recv #2 count=4 int32 peer=1 comm=c0",
            "AllReduce #2 count=2 int32 sum comm=c0 in-place",
            "AllReduce #3 count=1 float32 sum comm=c0 in-place",
            "Bcast #1 count=6 int32 root=1 comm=c0 in-place",
            "Reduce #1 count=6 int32 sum root=1 comm=c0 in-place",
            "AllReduce #4 count=6 int32 sum comm=c0 in-place",
            "AllReduce #5 count=6 int32 comm=c0 in-place",
            "CommDestroy #1 comm=c0"])
        self.assertEqual(second[0], "CommInitRankConfig #1")
        self.assertEqual(second[4:6], ["Recv #1 count=8 int32 peer=-1 comm=c0",
                                       "Send #1 count=8 int32 peer=-1 comm=c0"])
        self.assertEqual(len(second), len(first) - 1)

    def test_each_group_has_a_label_of_its_own_also_after_all_were_destroyed(self):
        def body(rank, folder):
            for life in range(2):
                dist.init_process_group("sabot:gloo", init_method=f"file://{folder}/store-{life}",
                                        rank=rank, world_size=2)
                group = dist.new_group([1, 0])
                dist.barrier(group=group)
                dist.broadcast(torch.zeros(3), 0)
                dist.destroy_process_group()

        for lines in self.log_of(2, body):
            self.assertEqual([line for line in lines if "AllReduce" in line or "Bcast" in line], [
                "AllReduce #1 count=1 float32 sum comm=c1 in-place",
                "Bcast #1 count=3 float32 root=0 comm=c0 in-place",
                "AllReduce #1 count=1 float32 sum comm=c3 in-place",
                "Bcast #1 count=3 float32 root=0 comm=c2 in-place"])

    # Not with gloo, whose own split hangs where a subgroup was made before (torch 2.13).
    def test_a_child_of_a_group_is_a_part_of_it(self):
        def body(rank, folder):
            around_sabot()
            job.join(rank, folder, 2, backend="around")
            child = dist.group.WORLD.split_group(
                [1, 0], timeout=datetime.timedelta(seconds=60), group_name="child")
            value = torch.full((3,), 1.0 + rank)
            child.allreduce([value]).wait()
            say("child:", child.rank(), child.size(), child._get_backend(CPU).name(),
                value.tolist())

        for rank, lines in enumerate(self.log_of(2, body)):
            own = [line for line in lines if "/s0" in line or line.startswith("child")]
            self.assertEqual(own[0], f"child: {rank} 2 sabot:sabot [3.0, 3.0, 3.0]")
            self.assertEqual(own[1:], ["AllReduce #1 count=3 float32 sum comm=c1/s0 in-place",
                                       "CommDestroy #1 comm=c1/s0"])
            self.assertIn("CommSplit #1 comm=c1", lines)

    def test_names_are_those_that_torch_was_given(self):
        def body(rank, folder):
            job.join(rank, folder, 1, backend="cpu:sabot-gloo")
            dist.all_reduce(torch.ones(1))
            say("backend:", dist.get_backend(), dist.get_backend_config(),
                dist.group.WORLD._get_backend(CPU).name())
            dist.destroy_process_group()
            dist.init_process_group("sabot:gloo", init_method=f"file://{folder}/again", rank=0,
                                    world_size=1)
            say("backend:", dist.get_backend(), dist.group.WORLD._get_backend(CPU).name())

        lines = [line for line in self.log_of(1, body)[0] if line.startswith("backend:")]
        self.assertEqual(lines, ["backend: cpu:sabot-gloo cpu:sabot-gloo sabot:gloo",
                                 "backend: sabot:gloo sabot:gloo"])

    def test_calls_within_a_wrapped_backend_belong_to_the_announced_one(self):
        def body(rank, folder):
            around_sabot()
            job.join(rank, folder, 2, backend="around")
            dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))
            dist.all_reduce(torch.ones(2))

        for lines in self.log_of(2, body):
            lines = [line for line in lines if "comm=c1" in line]
            self.assertEqual(lines, ["AllGather #1 count=2 float32 comm=c1",
                                     "AllReduce #1 count=2 float32 sum comm=c1 in-place"])


def around_sabot():
    """Registers "around", a proxy around the backend "sabot"."""
    import sabot.torch
    from sabot import _build

    def create(options, _):
        inner = sabot.torch._create(options)
        return _build.load().create_proxy(
            inner, "sabot", options.group_rank, options.group_size, str(options.group_id),
            list(options.global_ranks_in_group) or list(range(options.group_size)))

    dist.Backend.register_backend("around", create, extended_api=True, devices=["cpu"])


class Faults(unittest.TestCase):
    maxDiff = None

    def expect_ranks(self, size, body):
        outcomes = job.run_ranks(size, body)
        for outcome in outcomes:
            self.assertEqual(outcome.status, 0, outcome)
        return outcomes

    def test_before_executes_nothing_and_the_group_goes_on(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            dist.all_reduce(torch.ones(1))
            value = torch.full((4,), 1.0 + rank)
            with sabot.inject("AllReduce", rank=1, nth=1, error="SystemError") as fault:
                say(told(dist.all_reduce, value))
                say(value.tolist(), fault.fired)
                if rank == 1:  # rank 0 waits for this one
                    dist.all_reduce(value)
            say(value.tolist(), dist.group.WORLD._get_backend(CPU).size())
            dist.destroy_process_group()

        first, second = self.expect_ranks(2, body)
        self.assertEqual(first.lines, ["", "[3.0, 3.0, 3.0, 3.0] 0", "[3.0, 3.0, 3.0, 3.0] 2"])
        self.assertRegex(second.text, "^" + pattern(
            DISTRIBUTED_ERROR, rank=1, function="AllReduce", number=2)
            + r"\n\[2\.0, 2\.0, 2\.0, 2\.0\] 1\n\[3\.0, 3\.0, 3\.0, 3\.0\] 2\n$")

    def test_a_skipped_operation_is_complete_and_nobody_took_part(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            value = torch.full((4,), 1.0 + rank)
            with sabot.inject(text="AllReduce[nth=1]=skip", required=True):
                work = dist.all_reduce(value, async_op=True)
                say(work.wait(), work.is_completed(), value.tolist())
            dist.all_reduce(value)
            say(value.tolist())
            dist.destroy_process_group()

        for rank, outcome in enumerate(self.expect_ranks(2, body)):
            self.assertEqual(
                outcome.lines, [f"True True {[1.0 + rank] * 4}", "[3.0, 3.0, 3.0, 3.0]"])

    def test_corrupt_input_reaches_every_rank_and_corrupt_output_this_one(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            for at in ("before", "after"):
                value = torch.full((4,), 1.0 + rank)
                with sabot.inject(text=f"AllReduce[rank=1]=corrupt(zero,at={at})"):
                    dist.all_reduce(value)
                say(sorted(value.tolist()))
            dist.destroy_process_group()

        first, second = self.expect_ranks(2, body)
        self.assertEqual(first.lines, ["[1.0, 3.0, 3.0, 3.0]", "[3.0, 3.0, 3.0, 3.0]"])
        self.assertEqual(second.lines, ["[1.0, 3.0, 3.0, 3.0]", "[0.0, 3.0, 3.0, 3.0]"])

    def test_a_delay_holds_the_caller(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            dist.barrier()
            begin = time.monotonic()
            with sabot.inject(text="AllReduce[rank=1]=delay(200ms)"):
                dist.all_reduce(torch.ones(1))
            say(time.monotonic() - begin >= 0.2 if rank == 1 else True)
            dist.destroy_process_group()

        for outcome in self.expect_ranks(2, body):
            self.assertEqual(outcome.lines, ["True"])

    def test_after_executes_and_waits_and_then_fails(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            value = torch.full((4,), 1.0 + rank)
            with sabot.inject("AllReduce", rank=1, at="after", error="SystemError"):
                error = told(lambda: dist.all_reduce(value, async_op=True).wait())
            say(f"{error}\n{value.tolist()}")
            dist.barrier()

        first, second = self.expect_ranks(2, body)
        self.assertEqual(first.lines, ["", "[3.0, 3.0, 3.0, 3.0]"])
        self.assertRegex(second.text, "^" + pattern(
            DISTRIBUTED_ERROR, rank=1, function="AllReduce", number=1)
            + r"\n\[3\.0, 3\.0, 3\.0, 3\.0\]\n$")

    def test_each_function_raises_what_torch_raises_for_nccl(self):
        rows = [("Bcast", "broadcast", DISTRIBUTED_ERROR), ("Reduce", "reduce", DISTRIBUTED_ERROR),
                ("AllGather", "all_gather", DISTRIBUTED_ERROR),
                ("AllGather", "all_gather_into_tensor", DISTRIBUTED_ERROR),
                ("ReduceScatter", "reduce_scatter_tensor", DISTRIBUTED_ERROR),
                ("AllReduce", "barrier", DISTRIBUTED_ERROR),
                ("Send", "ring", DISTRIBUTED_ERROR),
                ("AlltoAll", "all_to_all_single", PLAIN_ERROR),
                ("AlltoAll", "all_to_all", PLAIN_ERROR), ("Send", "gather", PLAIN_ERROR),
                ("Recv", "scatter", PLAIN_ERROR)]

        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            table = dict(Operations(rank, 2, torch.float32).table())
            for function, name, _ in rows:  # on all ranks, so that none waits for another
                if rank == 1 and (name, function) in (("gather", "Send"), ("scatter", "Recv")):
                    function = {"Send": "Recv", "Recv": "Send"}[function]
                with sabot.inject(function, error="SystemError", required=True):
                    say("=", told(table[name], dist.group.WORLD))

        texts = self.expect_ranks(2, body)[0].text.split("= ")[1:]
        for (function, name, style), text in zip(rows, texts, strict=True):
            expected = pattern(style, rank=0, function=function, number=r"\d+")
            self.assertRegex(text.strip(), f"^{expected}$", name)

    def test_an_error_in_the_middle_of_backward_reaches_the_training_loop(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
            with sabot.inject("AllReduce", error="RemoteError", required=True):
                say(told(lambda: model(torch.ones(1, 4)).sum().backward()))
            told(dist.barrier)

        for outcome in self.expect_ranks(2, body):
            self.assertRegex(outcome.text,
                             r"^DistBackendError: NCCL error in: .*\nncclRemoteError:")

    def test_the_faults_of_a_run_fire_and_stand_in_its_journal(self):
        def body(rank, folder):
            run = pathlib.Path(folder) / "run"
            run.mkdir(exist_ok=True)
            os.environ.update(SABOT_QUIET="1", SABOT_RUN_FOLDER=str(run), RANK=str(rank),
                              WORLD_SIZE="2",
                              SABOT_FAULT="AllReduce[rank=1,nth=2]=error(SystemError)")
            job.join(rank, folder, 2, backend="sabot-gloo")
            say(told(dist.all_reduce, torch.ones(3)) == "")
            if rank == 1:
                say("DistBackendError" in told(dist.all_reduce, torch.ones(3)))
                lines = [line for path in (run / "journal").glob("*.jsonl")
                         for line in path.read_text().splitlines()]
                say(len(lines))
                fired = json.loads(lines[-1])
                say(json.dumps(fired))
            dist.all_reduce(torch.ones(3))

        second = self.expect_ranks(2, body)[1]
        self.assertEqual(second.lines[:2], ["True", "True"], second)
        row = json.loads(second.lines[3])
        self.assertIn("AllReduce", json.dumps(row), second)
        self.assertIn("c0", json.dumps(row), second)

    def test_a_fault_in_the_creation_fails_init_process_group_and_the_next_one_works(self):
        def body(rank, folder):
            import sabot

            for function in ("GetUniqueId", "CommInitRankConfig"):
                with sabot.inject(function, error="InternalError", required=True):
                    say(told(dist.init_process_group, "sabot:gloo", rank=0, world_size=1,
                             init_method=f"file://{folder}/{function}").split("\n")[1])
                say(dist.is_initialized())
            job.join(rank, folder, 1, backend="sabot:gloo")
            value = torch.ones(1)
            dist.all_reduce(value)
            say(value.item())

        outcome = self.expect_ranks(1, body)[0]
        text = "ncclInternalError: Internal check failed."
        self.assertEqual(outcome.lines, [text, "False", text, "False", "1.0"], outcome)

    def test_a_fault_in_a_coalesced_group_is_raised_at_its_end(self):
        def body(rank, folder):
            import sabot

            around_sabot()
            job.join(rank, folder, 2, backend="around")
            backend = dist.group.WORLD._get_backend(CPU)
            say(backend.supports_coalescing)
            for at in ("before", "after"):
                values = [torch.full((2,), 1.0 + rank) for _ in range(2)]
                with sabot.inject("AllReduce", nth=1, at=at, error="SystemError", required=True):
                    backend._start_coalescing()
                    say(told(lambda: [backend.allreduce([value]) for value in values]))
                    say(told(backend._end_coalescing).split(":")[0])
                if at == "after":
                    say([value.tolist() for value in values])
            backend._start_coalescing()
            value = torch.ones(2)
            backend.allreduce([value])
            backend._end_coalescing().wait()
            say(value.tolist())

        for outcome in self.expect_ranks(2, body):
            self.assertEqual(outcome.lines, [
                "True", "", "DistBackendError", "", "DistBackendError",
                "[[3.0, 3.0], [3.0, 3.0]]", "[2.0, 2.0]"], outcome)


class End(unittest.TestCase):
    maxDiff = None

    def expect_lines(self, size, body, *lines):
        for outcome in job.run_ranks(size, body):
            self.assertEqual((outcome.status, outcome.lines), (0, list(lines)), outcome)

    def test_a_group_ends_once_however_often_it_is_told_to(self):
        def body(rank, folder):
            job.join(rank, folder, 2, backend="sabot:gloo")
            backend = dist.group.WORLD._get_backend(CPU)
            dist.all_reduce(torch.ones(1))
            say(told(backend.shutdown), told(backend.shutdown), told(backend.abort))
            say(told(backend.allreduce, [torch.ones(1)]))
            say(told(dist.destroy_process_group), dist.is_initialized())

        outcomes = job.run_ranks(2, body)
        for rank, outcome in enumerate(outcomes):
            self.assertEqual(outcome.lines, [
                "  ", f"DistBackendError: The process group was destroyed on rank {rank};"
                " sabot:gloo cannot execute all_reduce", " False"], outcome)

    def test_a_backend_that_a_program_holds_on_to_ends_well(self):
        def body(rank, folder):
            for life in range(20):  # a race of gloo's threads for Python's lock
                dist.init_process_group("sabot:gloo", init_method=f"file://{folder}/store-{life}",
                                        rank=rank, world_size=2)
                backend = dist.group.WORLD._get_backend(CPU)
                dist.all_reduce(torch.ones(1))
                dist.destroy_process_group()
                del backend

        self.expect_lines(2, body)

    def test_an_aborted_group_says_so(self):
        def body(rank, folder):
            job.join(rank, folder, 2, backend="sabot:gloo")
            dist.all_reduce(torch.ones(1))
            backend = dist.group.WORLD._get_backend(CPU)
            backend.abort()
            say(told(backend.barrier, dist.BarrierOptions()).replace(f"rank {rank}", "rank N"))
            say(told(dist.destroy_process_group))

        self.expect_lines(
            2, body, "DistBackendError: NCCL communicator was aborted on rank N. Original reason"
            " for failure was: the application aborted it; sabot:gloo cannot execute barrier", "")

    def test_a_fault_in_the_destruction_is_raised_and_the_group_can_be_destroyed_again(self):
        def body(rank, folder):
            import sabot

            job.join(rank, folder, 2, backend="sabot:gloo")
            with sabot.inject("CommDestroy", error="SystemError", required=True):
                say(told(dist.group.WORLD._get_backend(CPU).shutdown).split("\n")[1])
            value = torch.ones(1)
            dist.all_reduce(value)
            say(value.item(), told(dist.destroy_process_group), dist.is_initialized())

        self.expect_lines(2, body, "ncclSystemError: System call (e.g. socket, malloc) or external"
                          " library call failed or device error. ", "2.0  False")

    def test_programs_end_well_with_groups_in_any_state(self):
        program = """if True:
            import sys, torch, torch.distributed as dist, sabot
            end = sys.argv[1]
            dist.init_process_group("sabot:gloo", init_method=f"file://{sys.argv[2]}/{end}",
                                    rank=0, world_size=1)
            group = dist.new_group([0])
            work = dist.all_reduce(torch.ones(4), async_op=True)
            if end == "faulted":
                with sabot.inject("AllReduce", error="SystemError"):
                    try:
                        dist.all_reduce(torch.ones(1), group=group)
                    except dist.DistBackendError:
                        pass
            if end == "aborted":
                group._get_backend(torch.device("cpu")).abort()
            if end in ("destroyed", "faulted", "aborted"):
                dist.destroy_process_group()
            """
        with tempfile.TemporaryDirectory() as folder:
            for end in ("open", "destroyed", "faulted", "aborted"):
                outcome = job.command([sys.executable, "-c", program, end, folder],
                                      TORCH_CPP_LOG_LEVEL="ERROR", PYTHONWARNINGS="ignore")
                self.assertEqual((outcome.status, outcome.text), (0, ""), f"{end}: {outcome}")


class Passed(unittest.TestCase):
    """What is no operation."""

    maxDiff = None

    def test_what_gloo_can_tell_the_proxy_tells(self):
        def body(rank, folder):
            job.join(rank, folder, 2, backend="gloo")
            ours = dist.new_group(backend="sabot:gloo")
            for group in (dist.new_group(backend="gloo"), ours):
                backend = group._get_backend(CPU)
                dist.all_reduce(torch.ones(1), group=group)
                say(backend.rank(), backend.size(), backend.supports_coalescing,
                    backend.supports_time_estimate, backend._get_sequence_number_for_group(),
                    told(backend._start_coalescing).replace("sabot:", ""),
                    told(backend.set_timeout, datetime.timedelta(seconds=9)))
                work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
                work.wait()
                say(work.get_future().wait()[0].item(), work.is_completed())

        for outcome in job.run_ranks(2, body):
            self.assertEqual(outcome.status, 0, outcome)
            self.assertEqual(outcome.lines[:2], outcome.lines[2:], outcome)

    def test_a_monitored_barrier_names_the_rank_that_did_not_come(self):
        def body(rank, folder):
            import sabot.torch

            job.join(rank, folder, 2, backend="sabot:gloo")
            say(told(sabot.torch.monitored_barrier, timeout=30))
            if rank == 0:
                say(told(sabot.torch.monitored_barrier, timeout=0.2))
                pathlib.Path(f"{folder}/told").touch()
            else:
                wait_for(f"{folder}/told")

        first = job.run_ranks(2, body)[0]
        self.assertEqual(first.lines[0], "", first)
        self.assertIn("Rank 1", first.text, first)

    @unittest.skipIf(dist.is_nccl_available(), "this torch has NCCL")
    def test_a_backend_that_this_torch_lacks_is_refused_by_name(self):
        def body(rank, folder):
            say(told(job.join, rank, folder, 1, backend="sabot:nccl"))
            say(dist.is_initialized())

        outcome = job.run_ranks(1, body)[0]
        self.assertEqual(outcome.lines, [
            f"SabotError: cannot create 'sabot:nccl': this torch {torch.__version__} has no backend"
            " 'nccl' to wrap; it has gloo", "False"], outcome)


@unittest.skipUnless(dist.is_nccl_available() and os.path.exists("/dev/nvidia0"), "no GPU")
class Nccl(unittest.TestCase):
    """Around torch's own NCCL backend, with as many GPUs as there are, two at most."""

    maxDiff = None

    def test_a_proxy_around_nccl_does_what_nccl_does_and_can_be_faulted(self):
        size = min(2, len([name for name in os.listdir("/dev") if re.match(r"nvidia\d+$", name)]))
        with tempfile.TemporaryDirectory() as folder:
            outcomes = [None] * size

            def run(rank):
                outcomes[rank] = job.command(
                    [sys.executable, HERE / "proxy_nccl.py", rank, size, f"{folder}/store"], 120,
                    TORCH_CPP_LOG_LEVEL="ERROR", PYTHONWARNINGS="ignore", NCCL_NVLS_ENABLE="0")

            threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for outcome in outcomes:
            self.assertEqual(outcome.status, 0, outcome)
            self.assertEqual(outcome.lines, [
                "same True", "gradient True", f"before DistBackendError {size == 1}",
                "after DistBackendError True", "within ", "end DistBackendError", "value 2.0 "],
                outcome)


if __name__ == "__main__":
    # What torch says of names that it deprecates is not what these tests read.
    unittest.main(warnings="ignore")
