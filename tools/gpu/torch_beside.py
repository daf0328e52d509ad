"""CPU and CUDA tensors of one process group: backend "sabot" beside NCCL, under one scenario.

    python3 torch_beside.py PATH_OF_SABOT

Ranks under `sabot run`, whose preload wraps the real NCCL, make a group "cpu:sabot,cuda:nccl": one
for each GPU, at most two. The fault is meant for 64-bit floats, which only the CPU tensors have:
the last rank must see it there and nowhere else, and NCCL must go on. Exit status 1 with the reason
if anything else happens.
"""

import os
import subprocess
import sys
import tempfile

SECONDS = 50


def run_rank(rank, ranks, store):
    import datetime

    import torch
    import torch.distributed as dist

    sum_of_all = ranks * (ranks + 1) / 2.0

    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:sabot,cuda:nccl", init_method=f"file://{store}", rank=rank,
                            world_size=ranks, timeout=datetime.timedelta(seconds=20))

    def total(**where):
        tensor = torch.full((1000,), rank + 1.0, **where)
        dist.all_reduce(tensor)
        return tensor.unique().tolist()

    assert total(device="cuda") == [sum_of_all], "CUDA, before"
    assert total(dtype=torch.float64) == [sum_of_all], "CPU, before"
    raised = ""
    try:
        total(dtype=torch.float64)
    except dist.DistBackendError as error:
        raised = str(error)
    assert ("injected by Sabot" in raised) == (rank == ranks - 1), f"CPU, fault: {raised}"
    assert total(device="cuda") == [sum_of_all], "CUDA, after"
    print(f"rank {rank} ok", flush=True)
    os._exit(0)


def main():
    if sys.argv[1] == "--rank":
        return run_rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    import torch

    ranks = min(2, torch.cuda.device_count())
    fault = f"AllReduce[rank={ranks - 1},datatype=float64,nth=2]=error(SystemError,at=after)"
    with tempfile.TemporaryDirectory(prefix="torch-beside-") as folder:
        start = " & ".join(f"{sys.executable} {__file__} --rank {rank} {ranks} {folder}/store"
                           for rank in range(ranks))
        done = subprocess.run(
            [sys.argv[1], "run", "--engine", "real", "--require-fired", "--fault", fault,
             "--run-folder", f"{folder}/run", "--", "sh", "-c", f"{start} & wait"],
            capture_output=True, text=True, timeout=SECONDS, check=False)
    fine = done.returncode == 0 and all(f"rank {rank} ok" in done.stdout for rank in range(ranks))
    if not fine:
        print(done.stdout, done.stderr, sep="\n")
    print("beside:", "both tensors, one fault, as it must be" if fine else
          f"failed with status {done.returncode}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
