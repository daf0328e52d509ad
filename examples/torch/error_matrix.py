"""What a training script sees when NCCL fails: function × code → exception, in the installed torch.

    python3 examples/torch/error_matrix.py                               sabot on CPUs
    sabot run --engine real -- python3 examples/torch/error_matrix.py    nccl on a GPU

One process loops over all cases; for each it injects one code into one call and shows the class,
the line that names the code, and whether `except DistBackendError` would have caught it. A world of
one rank is enough: the call is made all the same. Where torch itself leaves the call out, the row
says so. --markdown prints a table for a document.
"""

import argparse
import os
import re
import sys
import tempfile
import warnings

os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
os.environ.setdefault("TORCH_NCCL_NONBLOCKING_TIMEOUT", "5")

import sabot  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

warnings.simplefilter("ignore", FutureWarning)  # the newest names of functions are too new to use

CODES = ["UnhandledCudaError", "SystemError", "InternalError", "InvalidArgument", "InvalidUsage",
         "RemoteError", "InProgress", "Timeout"]
COLLECTIVES = {
    "AllReduce": lambda x, out: dist.all_reduce(x),
    "Broadcast": lambda x, out: dist.broadcast(x, 0),
    "Reduce": lambda x, out: dist.reduce(x, 0),
    "AllGather": dist.all_gather_into_tensor,
    "ReduceScatter": lambda x, out: dist.reduce_scatter_tensor(out, x),
    "AlltoAll": lambda x, out: dist.all_to_all_single(out, x),
}
# Beginning and end of a group. Which of the calls creates a communicator depends on the version.
LIFE = {"CommInit": ["CommInitRank", "CommInitRankConfig"], "CommDestroy": ["CommDestroy"]}


def life(x):
    """A group from its first collective to its end."""
    group = dist.new_group([0])
    dist.all_reduce(x, group=group)
    dist.destroy_process_group(group)


def observe(call, code, action):
    """(class name or verdict, the telling line, whether DistBackendError catches it)"""
    with sabot.inject(call, error=code, nth=1) as fault:
        try:
            action()
            error = None
        except Exception as caught:  # every class counts: that is the question
            error = caught
    if error is not None:
        return type(error).__name__, line_of(error), isinstance(error, dist.DistBackendError)
    return ("no exception" if fault.fired else "never called"), "", False


def line_of(error):
    """The line of the text that names the code, else the first."""
    lines = str(error).splitlines() or [""]
    named = [line for line in lines if re.match(r"nccl\w+:|Unknown NCCL|NCCL Error \d", line)]
    return (named or lines)[0].strip()


def rows():
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    x, out = torch.ones(256, device=device), torch.empty(256, device=device)
    for name, action in COLLECTIVES.items():
        for code in CODES:
            yield name, code, observe(name, code, lambda: action(x, out))
    for name, calls in LIFE.items():
        for code in CODES:
            yield name, code, observe(calls, code, lambda: life(x))


def show(row, markdown):
    name, code, (kind, line, is_caught) = row
    caught = "" if not line else "yes" if is_caught else "no"
    if markdown:
        print(f"| {name} | {code} | {kind} | {caught} | {line} |")
    else:
        print(f"{name:<14}{code:<19}{kind:<17}{caught:<5}{line[:70]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="nccl" if torch.cuda.is_available() else "sabot")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="error-matrix-") as scratch:
        dist.init_process_group(options.backend, init_method=f"file://{scratch}/store", rank=0,
                                world_size=1)
        dist.all_reduce(torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu"))
        if options.markdown:
            print("| function | code | exception | DistBackendError | text |")
            print("|---|---|---|---|---|")
        raised = missed = 0
        for row in rows():
            show(row, options.markdown)
            raised += bool(row[2][1])
            missed += bool(row[2][1]) and not row[2][2]
    print(f"\ntorch {torch.__version__}, backend {options.backend}: {raised} exceptions;"
          f" `except DistBackendError` misses {missed} of them")
    sys.stdout.flush()
    os._exit(0)  # the last communicators may be broken on purpose


if __name__ == "__main__":
    sys.exit(main())
