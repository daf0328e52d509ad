"""A few training steps of a small model under DistributedDataParallel; nothing here knows Sabot.

    torchrun --nproc-per-node 2 ddp_step.py [--steps N] [--backend sabot|gloo|nccl]

Prints one line a step and rank. Each step all-reduces the gradients once; where that fails, the
exception that training code would have to catch is printed, and the exit status is 1. The losses
are the same in every run and on every backend, so that a run can be compared with another one."""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def build_model(device):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)]
    return torch.nn.Sequential(*layers).to(device)


def train(model, steps, rank, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, steps + 1):
        inputs = torch.randn(8, 16, generator=generator).to(device)
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        # One write a line: ranks share the terminal.
        print(f"rank {rank} step {step} loss {loss.item():.6f}\n", end="", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--backend", default="sabot")
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    device = torch.device("cpu")
    if options.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend)
    try:
        model = DistributedDataParallel(build_model(device))
        train(model, options.steps, rank, device)
    except Exception as error:
        kind = type(error)
        lines = f"{kind.__module__}.{kind.__qualname__}: {error}".splitlines()
        text = "".join(f"rank {rank} raised {line}\n" for line in lines)
        print(text, end="", file=sys.stderr, flush=True)
        os._exit(1)  # a failed communicator must not hold the others in its destructor
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
