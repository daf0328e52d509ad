"""Rank 1 leaves out a collective: what the others see, and who is found to be missing.

    python3 examples/torch/hang_detective.py            sabot on CPUs, nccl where there are GPUs
    sabot run --log calls -- python3 examples/torch/hang_detective.py

After four all-reduces the data of one rank ends, one batch before that of the others: the most
usual reason for a hang. The others wait in all-reduce number 5 until their timeout. torch's flight
recorder then writes one file for each rank; this program reads them and names the rank that never
came, the operation and its number. Exit status 0 if the files convict the right rank.
"""

import argparse
import collections
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time

END_S = 60  # beyond the timeout: what torch's watchdog may take to give up
RECORD_S = 1  # what the flight recorder may take after the exception


def default_backend():
    import torch

    return "nccl" if torch.cuda.is_available() else "sabot"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def reason(error):
    """The first line of an exception, or what follows "Last error:", which says more."""
    first, _, last = str(error).partition("Last error:\n")
    return (last or first).splitlines()[0]


def run_rank(options):
    import datetime

    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend, timeout=datetime.timedelta(seconds=options.timeout))
    batches = options.batches - (1 if rank == options.short else 0)
    for number in range(1, batches + 1):
        started = time.monotonic()
        try:
            dist.all_reduce(torch.ones(1024, device=device))
            if device.type == "cuda":
                torch.cuda.synchronize()
        except RuntimeError as error:
            seconds = time.monotonic() - started
            print(f"rank {rank}: all_reduce {number} failed after {seconds:.0f} s:"
                  f" {type(error).__name__}: {reason(error)}\n", end="", flush=True)
            time.sleep(RECORD_S)
            os._exit(1)
    print(f"rank {rank}: has no more data after all_reduce {batches}\n", end="", flush=True)
    time.sleep(options.timeout + END_S)  # evaluates, writes, …: anything without the others


def prefix_of_variables():
    """The flight recorder's variables, under the names that the installed torch prefers."""
    import importlib.metadata

    major, minor = importlib.metadata.version("torch").split(".")[:2]
    return "FR_DUMP" if (int(major), int(minor)) >= (2, 11) else "NCCL_DEBUG_INFO"


def entries(path):
    """{group name: {number: operation}} of the collectives that a rank entered."""
    found = collections.defaultdict(dict)
    for entry in pickle.loads(path.read_bytes())["entries"]:
        if not entry["is_p2p"]:
            found[entry["process_group"][0]][entry["collective_seq_id"]] = entry["profiling_name"]
    return found


def verdicts(records):
    """Sentences about collectives that some ranks entered and others did not."""
    for group in sorted({group for record in records.values() for group in record}):
        last = {rank: max(record.get(group, {}), default=0) for rank, record in records.items()}
        first_missed = min(last.values()) + 1
        for rank, number in sorted(last.items()):
            if number >= first_missed or max(last.values()) < first_missed:
                continue
            operation = next(record[group][first_missed] for record in records.values()
                             if first_missed in record.get(group, {}))
            waiting = [other for other, theirs in sorted(last.items()) if theirs >= first_missed]
            yield rank, (f"rank {rank} never entered number {first_missed} of group {group},"
                         f" {operation}; its last is number {number}; waiting: {waiting}")


def wait_for(files, deadline):
    """Until every rank's file is complete, or a survivor and its file can tell no more."""
    while time.monotonic() < deadline:
        try:
            return {rank: entries(path) for rank, path in files.items()}
        except (OSError, EOFError, pickle.UnpicklingError):
            time.sleep(0.1)
    return {rank: entries(path) for rank, path in files.items() if path.exists()}


def investigate(options):
    """Starts the ranks, waits for their records, and says what they prove."""
    with tempfile.TemporaryDirectory(prefix="hang-detective-") as scratch:
        folder = options.records or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        prefix = folder.absolute() / "record-of-rank-"
        environment = {
            **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(options.ranks), "OMP_NUM_THREADS": "1",
            # Newer versions know the names of older ones, and warn about them.
            f"TORCH_{prefix_of_variables()}_TEMP_FILE": str(prefix),
            "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "5000",
        }
        command = [sys.executable, __file__, *sys.argv[1:]]
        ranks = [subprocess.Popen(command, env={**environment, "RANK": str(rank),
                                                "LOCAL_RANK": str(rank)})
                 for rank in range(options.ranks)]
        try:
            deadline = time.monotonic() + options.timeout + END_S
            for rank, process in enumerate(ranks):
                if rank != options.short:
                    process.wait(max(1, deadline - time.monotonic()))
                    told(rank, process.returncode)
            files = {rank: pathlib.Path(f"{prefix}{rank}") for rank in range(options.ranks)}
            records = wait_for(files, time.monotonic() + 10)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    found = list(verdicts(records))
    for _, sentence in found:
        print("flight recorder:", sentence)
    if not found:
        print(f"flight recorder: nobody is missing, in the records of ranks {sorted(records)}")
    return 0 if [rank for rank, _ in found] == [options.short] else 1


def told(rank, status):
    if status < 0:
        print(f"rank {rank}: ended by {signal.Signals(-status).name}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--short", type=int, default=1, help="the rank whose data ends early")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--records", type=pathlib.Path, help="where to keep the recorder's files")
    parser.add_argument("--timeout", type=int, default=5, help="of the process group, in seconds")
    options = parser.parse_args()
    options.backend = options.backend or default_backend()
    return run_rank(options) if "RANK" in os.environ else investigate(options)


if __name__ == "__main__":
    sys.exit(main())
