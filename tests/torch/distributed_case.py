"""PyTorch's own DistributedTest, shaped for one backend: the class that conformance.py runs.

The suite reads its subject from the environment while it is imported, so a process has one
subject. CONFORMANCE_BACKEND is the backend under test; CONFORMANCE_ANSWERS, if set, is the name
under which the suite's decorators see it: "is this gloo?" is then answered with yes although every
group is made by the backend under test. Ranks are forked from a process that has imported torch
and done nothing else with it; CONFORMANCE_START=spawn starts each from nothing, as PyTorch does,
which takes about four seconds a rank.
"""

import os

BACKEND = os.environ["CONFORMANCE_BACKEND"]
ANSWERS = os.environ.get("CONFORMANCE_ANSWERS") or BACKEND
START = os.environ.get("CONFORMANCE_START", "fork")
OUTPUT = os.environ["CONFORMANCE_OUTPUT"]  # what the ranks print
# The suite has these bounds of its own, 300 s and more; a test that takes a minute here hangs.
TIMEOUT_S = os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"]
os.environ.update(BACKEND=ANSWERS, INIT_METHOD="env://")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

OF_TORCH = ("gloo", "nccl", "mpi", "ucc")
if BACKEND not in OF_TORCH:
    import sabot.torch  # noqa: E402  (registers the backend)

    # How a backend from outside tells the suite what it serves.
    for feature in ("ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add(BACKEND)
common_distributed.TIMEOUT_OVERRIDE.clear()

from torch.testing._internal.distributed import distributed_test  # noqa: E402


class BothNames(str):
    """The backend's name, which also equals the name under which the suite is to see it."""

    __slots__ = ()

    def __eq__(self, other):
        return str.__eq__(self, other) or ANSWERS == other

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


distributed_test.BACKEND = BothNames(BACKEND)
if ANSWERS == "gloo" != BACKEND:
    # This function of torch asks for gloo by name; ours has the same arguments.
    dist.monitored_barrier = sabot.torch.monitored_barrier
dist.Backend(BACKEND)  # an unknown name is an error now and not in every rank


class Conformance(
    distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase
):
    def setUp(self):
        super().setUp()
        if START == "spawn":
            self._spawn_processes()
        else:
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        with open(OUTPUT, "ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        torch.set_num_threads(1)
        super()._run(rank, test_name, file_name, pipe, **kwargs)
