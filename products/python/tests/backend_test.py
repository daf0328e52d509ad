#!/usr/bin/env python3
"""The package with its compiled half: groups made through it, faults in training, refusals.

What the backend itself does is proved by tests/torch and src/pytorch; here it is reached as the
package reaches it, from a staged tree and by PYTHONPATH alone.
"""
import sys
import textwrap

import staged
from staged import ROOT, StagedTest

ONE_RANK = """
import torch, torch.distributed as dist, sabot
def start(backend, **words):
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, **words)
def refused(backend, **words):
    try:
        start(backend, **words)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


class BackendTest(StagedTest):
    """A test whose ranks are started by torchrun."""

    def torchrun(self, script, *words, ranks=2, **environment):
        return self.command([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node",
                             str(ranks), script, *words], **environment)

    def ranks(self, code):
        """Runs code on two ranks over "sabot"; it finds torch, dist, sabot and rank."""
        script = self.write("job.py", textwrap.dedent("""
            import sys, torch, torch.distributed as dist, sabot
            dist.init_process_group("sabot")
            rank = dist.get_rank()
            def say(*words):
                sys.stdout.write(" ".join(map(str, ("rank", rank, *words))) + "\\n")
            """) + textwrap.dedent(code) + "\ndist.destroy_process_group()\n")
        done = self.torchrun(script)
        self.assertEqual(done.status, 0, done.out + done.err)
        return sorted(done.out.splitlines())

    def one_rank(self, code):
        return self.printed(ONE_RANK + textwrap.dedent(code)).splitlines()


class Groups(BackendTest):
    """init_process_group."""

    def test_train_from_a_staged_tree_and_compile_nothing(self):
        script = ROOT / "examples/torch/ddp_step.py"
        losses = [sorted(self.torchrun(script, "--backend", backend).out.splitlines())
                  for backend in ("sabot", "gloo")]
        self.assertEqual(len(losses[0]), 10, losses[0])
        self.assertEqual(losses[0], losses[1])
        self.assertFalse(self.cache.exists())

    def test_can_be_mixed_with_a_backend_of_torch_for_another_device(self):
        self.assertEqual(self.one_rank("""
            start("cpu:sabot,meta:gloo")
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            print(tensor.tolist(), dist.get_backend_config())
            """), ["[1.0, 1.0, 1.0] cpu:sabot,meta:gloo"])

    def test_reduce_every_type_that_torch_and_nccl_share(self):
        self.assertEqual(self.ranks("""
            shared = "int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"
            for name in (shared + " float8_e4m3fn float8_e5m2").split():
                seen = []
                for op in "SUM", "PRODUCT", "MIN", "MAX", "AVG":
                    tensor = torch.tensor([4 if rank else 2]).to(getattr(torch, name))
                    dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
                    seen.append(tensor.to(torch.float64).item())
                if rank == 0 and seen != [6, 8, 2, 4, 3]:
                    say(name, seen)
            large = torch.tensor([2**63 + 5 if rank else 7], dtype=torch.uint64)
            dist.all_reduce(large, dist.ReduceOp.MAX)
            say(large.item() - 2**63)
            """), ["rank 0 5", "rank 1 5"])

    def test_refuse_a_second_backend_of_ours_which_torch_would_not_use(self):
        self.assertEqual(self.one_rank('refused("cpu:sabot,meta:sabot-gloo")'), [
            "SabotError: torch keeps one custom backend in a process group, so 'sabot' and"
            " 'sabot-gloo' cannot share one; give one of the devices a backend of torch itself, as"
            ' in "cpu:sabot,cuda:nccl" under `sabot run`, or make two groups'])

    def test_can_be_made_again_after_they_were_destroyed(self):
        self.assertEqual(self.one_rank("""
            for backend in ("sabot", "sabot-gloo", "sabot:gloo", "sabot"):
                start(backend)
                tensor = torch.ones(1)
                dist.all_reduce(tensor)
                print(dist.get_backend(), tensor.item())
                dist.destroy_process_group()
            """), ["sabot 1.0", "sabot-gloo 1.0", "sabot:gloo 1.0", "sabot 1.0"])

    def test_refuse_options_that_nobody_reads(self):
        self.assertEqual(self.one_rank('refused("sabot", pg_options=17)'), [
            'SabotError: the backend "sabot" takes no options of type int'])


class Faults(BackendTest):
    """sabot.inject around collectives of torch."""

    def test_fire_on_the_rank_that_they_name_and_leave_the_group_usable(self):
        self.assertEqual(self.ranks("""
            with sabot.inject("AllReduce", nth=2, error="SystemError") as fault:
                for step in range(3):
                    try:
                        dist.all_reduce(torch.ones(4))
                    except dist.DistBackendError as error:
                        say(step, str(error).splitlines()[1].split(":")[0], fault.fired)
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            say("sum", tensor.item())
            """), ["rank 0 1 ncclSystemError 1", "rank 0 sum 2.0", "rank 1 1 ncclSystemError 1",
                   "rank 1 sum 2.0"])

    def test_reach_a_backend_of_torch_under_the_proxy(self):
        self.assertEqual(self.one_rank("""
            start("sabot:gloo")
            with sabot.inject("AllReduce", nth=2, error="SystemError") as fault:
                for _ in range(3):
                    try:
                        dist.all_reduce(torch.ones(4))
                        print("ok")
                    except dist.DistBackendError as error:
                        print("ncclSystemError" in str(error), fault.fired)
            """), ["ok", "True 1", "ok"])


class MonitoredBarrier(BackendTest):
    """sabot.torch.monitored_barrier, since torch's own is for gloo by name."""

    def test_passes_when_all_come_and_names_who_does_not(self):
        lines = self.ranks("""
            import datetime, sabot.torch
            sabot.torch.monitored_barrier()
            say("passed")
            if rank == 0:
                try:
                    sabot.torch.monitored_barrier(timeout=datetime.timedelta(seconds=1))
                except RuntimeError as error:
                    say("missing", "ank 1" in str(error) or "ranks: 1" in str(error))
            try:
                sabot.torch.monitored_barrier(timeout=0)
            except ValueError as error:
                say(error)
            """)
        self.assertEqual(lines, [
            "rank 0 missing True", "rank 0 passed",
            "rank 0 the timeout of a barrier must be positive, not 0:00:00", "rank 1 passed",
            "rank 1 the timeout of a barrier must be positive, not 0:00:00"])


if __name__ == "__main__":
    sys.exit(staged.main())
