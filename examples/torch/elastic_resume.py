"""A training job that loses a collective, is restarted by torchrun, and resumes where it was.

    sabot run --scenario examples/scenarios/elastic-resume.toml -- \\
        torchrun --nproc-per-node 2 --max-restarts 1 examples/torch/elastic_resume.py

A small model under DistributedDataParallel writes a checkpoint after each step. The scenario
breaks the gradients' all-reduce of step 8 on rank 1, in the first attempt only: torchrun ends the
job and starts it again, and it goes on from the last checkpoint. The weights at the end, of which a
digest is printed, are those of a run without a fault, bit for bit. Without `sabot run` nothing
fails. With --folder the checkpoints stay, and the digests of all ranks beside them; else they are
removed when the job is done.

The drills of share/drills run this program under many faults. For them it has a timeout, without
which a job waits half an hour for a rank that hangs, and --keep-going, which is what loops do that
catch the exception of a step and go on with the next one: a drill shows why that is no recovery.
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import re
import shutil
import sys
import tempfile

# Before CUDA starts: the sums of a matrix product come in the same order each time.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# torch's watchdog would spend a minute on a report before it lets a broken process end.
os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

FEATURES, BATCH = 32, 16


def default_backend():
    return "nccl" if torch.cuda.is_available() else "sabot"


def device_of(rank):
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def batch(step, rank, device):
    """The same numbers for a step and rank in every attempt, as a resumable loader gives them."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(BATCH, FEATURES, generator=generator)
    return inputs.to(device), inputs.sum(1, keepdim=True).to(device)


def say(line):
    sys.stdout.write(line + "\n")  # in one piece, however torchrun has set up the streams
    sys.stdout.flush()


def reason(error):
    """The line of an exception that names NCCL's code, else its first."""
    lines = str(error).splitlines() or [""]
    return next((line for line in lines if re.match(r"nccl\w+Error:", line)), lines[0])


def digest(model):
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().cpu().numpy().tobytes())
    return sha.hexdigest()[:16]


def save(path, step, model, optimizer):
    """Under its name only when complete: the job may end at any moment."""
    new = path.with_suffix(".new")
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, new)
    os.replace(new, path)


def load(path, model, optimizer):
    """The number of steps that are done."""
    if not path.exists():
        return 0
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def train(options, rank, attempt):
    device, path = device_of(rank), options.folder / "checkpoint.pt"
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    done = load(path, model, optimizer)
    parallel = DistributedDataParallel(model)
    say(f"attempt {attempt} rank {rank}: begins after step {done}")
    for step in range(done + 1, options.steps + 1):
        inputs, expected = batch(step, rank, device)
        optimizer.zero_grad()
        try:
            loss = torch.nn.functional.mse_loss(parallel(inputs), expected)
            loss.backward()
        except RuntimeError as error:  # DistBackendError, except from newer NCCL backends of torch
            say(f"attempt {attempt} rank {rank}: step {step} failed:"
                f" {type(error).__name__}: {reason(error)}")
            if not options.keep_going:
                raise
            continue
        optimizer.step()
        if rank == 0:
            save(path, step, model, optimizer)
        say(f"attempt {attempt} rank {rank}: step {step} of {options.steps},"
            f" loss {loss.item():.6f}")
    if options.stays:
        (options.folder / f"weights-of-rank-{rank}").write_text(digest(model) + "\n")
    say(f"attempt {attempt} rank {rank}: done after step {options.steps},"
        f" weights {digest(model)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default=default_backend())
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--folder", type=pathlib.Path, help="where the checkpoints are")
    parser.add_argument("--timeout", type=float, help="of the process group, in seconds")
    parser.add_argument("--keep-going", action="store_true", help="skip steps that fail")
    options = parser.parse_args()
    options.stays = options.folder is not None
    if not options.stays:  # one name for all ranks and attempts of this torchrun
        options.folder = pathlib.Path(tempfile.gettempdir()) / f"elastic-resume-{os.getppid()}"
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    patience = datetime.timedelta(seconds=options.timeout) if options.timeout else None
    try:
        dist.init_process_group(options.backend, timeout=patience)
        train(options, dist.get_rank(), attempt)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)  # as a launcher would: nothing waits for a communicator that is broken
    if not options.stays and dist.get_rank() == 0:
        shutil.rmtree(options.folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
