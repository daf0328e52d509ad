#!/usr/bin/env python3
"""What the backend "sabot" says to input that it cannot serve; each text is pinned in full.

Where the text is PyTorch's own, because it refuses first, the test says so in its name. Two ranks
where ranks must disagree, one otherwise. Run with the staged package on PYTHONPATH.
"""

import datetime
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import job  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from job import say, told  # noqa: E402

SOON = datetime.timedelta(seconds=2)


class BadInput(unittest.TestCase):
    maxDiff = None

    def alone(self, action, backend="sabot"):
        """What a world of one rank is told by the action."""

        def body(rank, folder):
            job.join(rank, folder, 1, backend=backend)
            say(told(action))
            dist.destroy_process_group()

        (outcome,) = job.run_ranks(1, body)
        self.assertEqual(outcome.status, 0, outcome)
        return outcome.text.strip()

    def test_a_sparse_tensor_is_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.all_reduce(torch.eye(4).to_sparse())),
            "ValueError: sabot: all_reduce: Tensors must be CPU and dense; this one is sparse,"
            " pass tensor.to_dense()")

    def test_a_tensor_that_is_not_contiguous_is_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.all_reduce(torch.ones(4, 4)[:, ::2])),
            "ValueError: sabot: all_reduce: Tensors must be contiguous; pass tensor.contiguous()")

    def test_a_tensor_on_another_device_is_refused(self):
        # dist.all_reduce of a meta tensor ends in PyTorch: no backend of any kind hears of it.
        def action():
            backend = dist.group.WORLD._get_backend(torch.device("cpu"))
            backend.allreduce([torch.ones(4, device="meta")]).wait()

        self.assertEqual(
            self.alone(action),
            "ValueError: sabot: all_reduce: Tensors must be CPU and dense; this one is on meta."
            " Use a backend for each device, for example \"cpu:sabot,cuda:nccl\"")

    def test_a_type_that_nccl_lacks_is_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.all_reduce(torch.ones(4, dtype=torch.int16))),
            "TypeError: sabot: all_reduce: Input tensor data type is not supported for NCCL process"
            " group: Short")

    def test_bitwise_reductions_are_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.all_reduce(torch.ones(4), op=dist.ReduceOp.BAND)),
            "ValueError: sabot: all_reduce: Cannot use ReduceOp.BAND with NCCL; gloo has it for"
            " integers")

    def test_the_average_of_booleans_is_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.all_reduce(torch.ones(4, dtype=torch.bool),
                                               op=dist.ReduceOp.AVG)),
            "TypeError: Cannot use ReduceOp.AVG with boolean inputs")

    def test_mixed_types_are_refused_by_pytorch(self):
        mixed = [torch.ones(4), torch.ones(4, dtype=torch.int64)]
        text = self.alone(lambda: dist.all_gather(mixed[1:], mixed[0]))
        self.assertIn("Invalid usage of tensors with different dtypes", text)

    def test_mixed_types_in_one_call_are_refused(self):
        def action():
            backend = dist.group.WORLD._get_backend(torch.device("cpu"))
            backend.allreduce_coalesced(
                [torch.ones(4), torch.ones(4, dtype=torch.int64)]).wait()

        self.assertEqual(
            self.alone(action),
            "TypeError: sabot: all_reduce_coalesced: Tensors must have identical type; got Float"
            " and Long")

    def test_an_output_of_the_wrong_size_is_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.group.WORLD._allgather_base(torch.empty(5), torch.ones(4))),
            "ValueError: sabot: all_gather_into_tensor: output tensor size must be equal to"
            " world_size times input tensor size; got 5 elements, expected 1 x 4")

    def test_a_root_outside_of_the_group_is_refused(self):
        self.assertEqual(
            self.alone(lambda: dist.broadcast(torch.ones(4), 5)).splitlines()[1:],
            ["ncclInvalidArgument: Invalid value for an argument.", "Last error:",
             "ncclBcast: root is 5, must be a rank of the communicator: 0 to 0"])

    def test_another_shape_on_one_rank_is_an_error_on_every_rank_that_names_both(self):
        def body(rank, folder):
            job.join(rank, folder, 2)
            say(told(dist.all_reduce, torch.ones(4 + rank)).splitlines()[-1])
            dist.destroy_process_group()

        for outcome in job.run_ranks(2, body):
            self.assertEqual(
                outcome.text.strip(),
                "ncclAllReduce: rank 1 called AllReduce count=5 float32 sum, but rank 0 called"
                " AllReduce count=4 float32 sum (collective 1 of this communicator)")

    def test_a_rank_that_never_comes_is_named_after_the_timeout(self):
        def body(rank, folder):
            if rank == 0:
                say(told(job.join, rank, folder, 2, timeout=SOON))

        self.assertEqual(
            job.run_ranks(2, body)[0].text.strip(),
            "DistBackendError: sabot: rank 0 of group 0 waited 2000 ms for rank 1, which did not"
            " come; see whether that process is running and creates the same groups in the same"
            " order")

    def test_a_rank_that_leaves_out_a_group_is_named_after_the_timeout(self):
        def body(rank, folder):
            job.join(rank, folder, 2)
            if rank == 0:
                say(told(dist.new_group, [0, 1], timeout=SOON))

        self.assertEqual(
            job.run_ranks(2, body)[0].text.strip(),
            "DistBackendError: sabot: rank 0 of group 1 waited 2000 ms for rank 1, which did not"
            " come; see whether that process is running and creates the same groups in the same"
            " order")

    def test_a_backend_that_this_torch_lacks_cannot_be_wrapped(self):
        def body(rank, folder):
            for name in ("sabot:mpi", "sabot-mpi"):
                say(told(job.join, rank, folder, 1, backend=name))

        version = torch.__version__
        self.assertEqual(
            job.run_ranks(1, body)[0].lines,
            [f"SabotError: cannot create '{name}': this torch {version} has no backend 'mpi' to"
             f" wrap; it has {', '.join(backends())}" for name in ("sabot:mpi", "sabot-mpi")])

    def test_a_name_that_no_backend_has_is_refused_by_pytorch(self):
        def body(rank, folder):
            say(told(job.join, rank, folder, 1, backend="sabot:glue"))

        self.assertIn("GLUE", job.run_ranks(1, body)[0].text)

    def test_wrapping_a_name_that_no_backend_has_is_refused(self):
        def body(rank, folder):
            import sabot.torch

            say(told(sabot.torch.wrap, "glue"))
            say(told(sabot.torch.wrap, "sabot"))

        self.assertEqual(
            job.run_ranks(1, body)[0].lines,
            [f"SabotError: torch {torch.__version__} has no backend 'glue' to wrap; it has"
             f" {', '.join(backends())}",
             "SabotError: 'sabot' is a backend of Sabot already; wrap another one"])

    def test_a_world_of_one_rank_does_everything(self):
        def body(rank, folder):
            job.join(rank, folder, 1)
            x, out = torch.full((3,), 5.0), torch.zeros(3)
            dist.all_reduce(x)
            dist.broadcast(x, 0)
            dist.reduce(x, 0)
            dist.group.WORLD._allgather_base(out, x).wait()
            dist.all_to_all_single(out, x)
            dist.gather(x, [out], 0)
            dist.scatter(out, [x], 0)
            dist.barrier()
            say(x.tolist(), out.tolist())
            dist.destroy_process_group()

        (outcome,) = job.run_ranks(1, body)
        self.assertEqual(outcome.lines, ["[5.0, 5.0, 5.0] [5.0, 5.0, 5.0]"], outcome)

    def test_a_message_to_oneself_is_refused_by_pytorch(self):
        self.assertIn("should not be the same as the rank of the current process",
                      self.alone(lambda: dist.send(torch.ones(1), 0)))


def backends():
    import sabot.torch

    return sabot.torch.backends()


if __name__ == "__main__":
    unittest.main()
