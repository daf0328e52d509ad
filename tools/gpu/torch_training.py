"""DDP and FSDP2 training on two GPUs under stock PyTorch, calm and with faults: what the job sees.

    python3 torch_training.py PATH_OF_SABOT [--out FILE] [--backends nccl,nccl2]

Each row is a job of two ranks under `sabot run` that trains a small model for six steps: without a
fault, with an error at a collective of a late step, and with an error at the creation of the
communicator. The proxy sabot:nccl does DDP without `sabot run`: nothing is preloaded there. A row
states how many steps were done, what Python raised on the rank that was hit, and how often the
fault fired. Backends that the installed torch lacks are left out, by name.
Exit status 1 if a calm job fails or a fault does not fire.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STEPS = 6
JOB_SECONDS = 90
BACKENDS = ["nccl", "nccl2", "sabot:nccl"]
# Fault on rank 1; the collectives are those that the wrapper makes in a step.
FAULTS = {
    "ddp": ["AllReduce[rank=1,nth=4]=error(SystemError)",
            "init[rank=1,nth=1]=error(InternalError)"],
    "fsdp2": ["AllGather[rank=1,nth=5]=error(SystemError)",
              "ReduceScatter[rank=1,nth=4]=error(RemoteError)"],
}


def train(kind, rank):
    """One rank; yields after each step."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    else:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(1000 * step + rank)
        inputs = torch.randn(64, 512, generator=generator).cuda()
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        yield loss.item()


def run_rank(rank, kind, backend, meeting):
    """Writes {"steps", "losses", "error"} of this rank beside the store, and ends at once."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                      TORCH_NCCL_DUMP_ON_TIMEOUT="0")
    import datetime

    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    seen = {"losses": [], "error": ""}
    try:
        dist.init_process_group(backend, init_method=f"file://{meeting}/store", rank=rank,
                                world_size=2, timeout=datetime.timedelta(seconds=20))
        for loss in train(kind, rank):
            seen["losses"].append(loss)
    except Exception as error:  # every class counts: that is the question
        seen["error"] = f"{type(error).__name__}: {telling_line(str(error))}"
    pathlib.Path(f"{meeting}/{rank}.json").write_text(json.dumps(seen))
    os._exit(0)


def telling_line(text):
    lines = text.splitlines() or [""]
    named = [line for line in lines if re.search(r"nccl\w+:|failed:", line)]
    return (named or lines)[0].strip()


def job(kind, backend):
    """Inside `sabot run`: starts the ranks, prints what they saw as one line of JSON."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="torch-training-") as meeting:
        ranks = [context.Process(target=run_rank, args=(rank, kind, backend, meeting))
                 for rank in (0, 1)]
        for process in ranks:
            process.start()
        ranks[1].join(JOB_SECONDS / 2)
        ranks[0].join(5)  # after rank 1 was hit, rank 0 waits for it on its GPU
        for process in ranks:
            process.kill()
            process.join()
        files = [pathlib.Path(f"{meeting}/{rank}.json") for rank in (0, 1)]
        print(json.dumps([json.loads(f.read_text()) if f.exists() else None for f in files]))
    return 0


def observe(options, kind, backend, fault):
    words = [sys.executable, __file__, options.sabot, "--job", kind, "--backends", backend]
    with tempfile.TemporaryDirectory(prefix="torch-training-") as folder:
        environment = dict(os.environ)
        if is_proxy(backend):
            environment.update(SABOT_RUN_FOLDER=folder, **({"SABOT_FAULT": fault} if fault else {}))
            for part in ("attach", "journal", "budget", "tally"):
                pathlib.Path(folder, part).mkdir()
        else:
            words = [options.sabot, "run", "--engine", "real", "--run-folder", folder,
                     *(["--fault", fault] if fault else []), "--", *words]
        done = subprocess.run(words, capture_output=True, text=True, timeout=JOB_SECONDS,
                              check=False, env=environment)
        journal = [line for path in pathlib.Path(folder).glob("journal/*")
                   for line in path.read_text().splitlines()]
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if not lines:
        raise RuntimeError(f"{kind} over {backend}: no result\n{done.stdout}\n{done.stderr}")
    return json.loads(lines[-1]), len(journal)


def is_proxy(backend):
    return backend.startswith("sabot:")


def available(backend):
    import torch.distributed as dist

    known = getattr(dist, "is_backend_available", None)
    return known(backend) if known else backend in dist.Backend.backend_list


def rows(options):
    """(cells, whether it went as it must)"""
    for backend in options.backends.split(","):
        if not available(backend):
            yield ["all", backend, "", "this torch does not have it", "", ""], True
            continue
        for kind, faults in FAULTS.items():
            if is_proxy(backend) and kind != "ddp":
                continue
            for fault in ["", *faults]:
                (_, hit), fired = observe(options, kind, backend, fault)
                steps = len(hit["losses"]) if hit else 0
                error = hit["error"] if hit else "no answer"
                fine = fired == 1 and error if fault else steps == STEPS and not error
                yield [kind, backend, fault, error or "none", str(steps), str(fired)], bool(fine)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sabot")
    parser.add_argument("--out", default="")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--job", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        return job(options.job, options.backends)
    table = ["| training | backend | fault | exception on rank 1 | steps | fired |",
             "|---|---|---|---|--:|--:|"]
    verdicts = []
    for cells, fine in rows(options):
        table.append("| " + " | ".join(cells) + " |")
        print(table[-1], flush=True)
        verdicts.append(fine)
    if options.out:
        pathlib.Path(options.out).write_text("\n".join(table) + "\n")
    print(f"training: {verdicts.count(True)} of {len(verdicts)} rows as they must be")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
