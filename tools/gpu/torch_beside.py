"""CPU and CUDA tensors of one process group: backend "sabot" beside NCCL, under one scenario.

    python3 torch_beside.py PATH_OF_SABOT

Two ranks under `sabot run`, whose preload wraps the real NCCL, make a group "cpu:sabot,cuda:nccl".
The fault is meant for 64-bit floats, which only the CPU tensors have: rank 1 must see it there and
nowhere else, and NCCL must go on. Exit status 1 with the reason if anything else happens.
"""

import os
import subprocess
import sys
import tempfile

FAULT = "AllReduce[rank=1,datatype=float64,nth=2]=error(SystemError,at=after)"
SECONDS = 50


def run_rank(rank, store):
    import datetime

    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:sabot,cuda:nccl", init_method=f"file://{store}", rank=rank,
                            world_size=2, timeout=datetime.timedelta(seconds=20))

    def total(**where):
        tensor = torch.full((1000,), rank + 1.0, **where)
        dist.all_reduce(tensor)
        return tensor.unique().tolist()

    assert total(device="cuda") == [3.0], "CUDA, before"
    assert total(dtype=torch.float64) == [3.0], "CPU, before"
    raised = ""
    try:
        total(dtype=torch.float64)
    except dist.DistBackendError as error:
        raised = str(error)
    assert ("injected by Sabot" in raised) == (rank == 1), f"CPU, fault: {raised}"
    assert total(device="cuda") == [3.0], "CUDA, after"
    print(f"rank {rank} ok", flush=True)
    os._exit(0)


def main():
    if sys.argv[1] == "--rank":
        return run_rank(int(sys.argv[2]), sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="torch-beside-") as folder:
        start = " & ".join(f"{sys.executable} {__file__} --rank {rank} {folder}/store"
                           for rank in (0, 1))
        done = subprocess.run(
            [sys.argv[1], "run", "--engine", "real", "--require-fired", "--fault", FAULT,
             "--run-folder", f"{folder}/run", "--", "sh", "-c", f"{start} & wait"],
            capture_output=True, text=True, timeout=SECONDS, check=False)
    fine = done.returncode == 0 and all(f"rank {rank} ok" in done.stdout for rank in (0, 1))
    if not fine:
        print(done.stdout, done.stderr, sep="\n")
    print("beside:", "both tensors, one fault, as it must be" if fine else
          f"failed with status {done.returncode}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
