"""A few all-reduces through torch.distributed, as a training program makes them; nothing here knows
Sabot.

    python3 allreduce.py [--ranks N] [--calls M] [--backend nccl]

Spawns one process a rank (one GPU each with the nccl backend), prints one line a call and rank,
and lets the exception through where a call fails: the traceback is what a training job would
see. Exit status 1 then."""

import argparse
import os
import socket
import sys
import traceback


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_rank(rank, options, port):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(options.ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    import torch
    import torch.distributed as dist

    on_gpu = options.backend == "nccl"
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend)
    try:
        for call in range(1, options.calls + 1):
            tensor = torch.full((1024,), float(rank + call), device=device)
            dist.all_reduce(tensor)
            expected = options.ranks * (options.ranks - 1) / 2 + options.ranks * call
            if not bool((tensor == expected).all()):
                raise AssertionError(
                    f"rank {rank} call {call}: got {tensor[0].item()}, expected {expected}"
                )
            # In one piece, since ranks share the output.
            print(f"rank {rank} call {call} all_reduce ok sum={tensor[0].item():g}\n", end="",
                  flush=True)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # a failed communicator must not hold the others in its destructor
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=0, help="processes; default: GPUs, at most 2")
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--backend", default="nccl")
    options = parser.parse_args()
    if options.ranks == 0:
        import torch

        options.ranks = min(2, max(1, torch.cuda.device_count()))
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    port = free_port()
    ranks = [
        context.Process(target=run_rank, args=(rank, options, port))
        for rank in range(options.ranks)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(20)
        if (
            process.is_alive()
        ):  # a rank whose peer failed waits for it; a launcher would end it too
            process.terminate()
            process.join(10)
    return 0 if all(process.exitcode == 0 for process in ranks) else 1


if __name__ == "__main__":
    sys.exit(main())
