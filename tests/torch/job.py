"""Jobs of several ranks for the tests of this folder, each with a hard deadline.

run_ranks forks ranks from this process, which has imported torch and made no group: a rank costs a
tenth of a second instead of four. command runs a program as a user would, in a process group of its
own that is ended as a whole. What runs over its time fails the test with all that was printed.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

import torch
import torch.distributed as dist

DEADLINE_S = 60
POLL_S = 0.01


class Outcome:
    """How one process ended and what it printed; status is negative for a signal."""

    def __init__(self, status, text):
        self.status = status
        self.text = text
        self.lines = text.splitlines()

    def __str__(self):
        return f"status {self.status}\n{self.text}"


def join(rank, folder, size, **options):
    """The default group of this rank, over "sabot" unless options say otherwise."""
    options.setdefault("backend", "sabot")
    dist.init_process_group(
        init_method=f"file://{folder}/store", rank=rank, world_size=size, **options)


def say(*words):
    print(*words, flush=True)


def told(action, *arguments, **options):
    """Class and text of what the action raises, "" for nothing."""
    try:
        action(*arguments, **options)
    except Exception as error:  # tests compare the class
        return f"{type(error).__name__}: {error}"
    return ""


def child(body, rank, folder, output):
    """Runs in a rank and never returns."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    status = 1
    try:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")  # of names, and of forking beside threads: C17 means to
        body(rank, folder)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)  # tests of a process's end use command()


def run_ranks(size, body, deadline_s=DEADLINE_S):
    """[Outcome] of body(rank, folder) on each rank; folder is the job's own, empty at first."""
    with tempfile.TemporaryDirectory(prefix="torch-test-") as folder:
        ranks, deadline = {}, time.monotonic() + deadline_s
        for rank in range(size):
            output = os.open(f"{folder}/output-{rank}", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            pid = os.fork()
            if pid == 0:
                child(body, rank, folder, output)
            os.close(output)
            ranks[pid] = rank
        statuses = {}
        while len(statuses) < size and time.monotonic() < deadline:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in ranks:
                statuses[ranks[pid]] = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(POLL_S)
        late = [pid for pid, rank in ranks.items() if rank not in statuses]
        for pid in late:
            os.kill(pid, signal.SIGKILL)
            statuses[ranks[pid]] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        outcomes = [Outcome(statuses[rank], pathlib.Path(f"{folder}/output-{rank}").read_text())
                    for rank in range(size)]
    if late:
        raise AssertionError(f"ranks {sorted(ranks[pid] for pid in late)} did not end within"
                             f" {deadline_s} s\n" + "\n".join(map(str, outcomes)))
    return outcomes


def command(words, deadline_s=DEADLINE_S, folder=None, **environment):
    """Outcome of a program, its standard output and error together."""
    variables = {key: value for key, value in os.environ.items()
                 if not key.startswith(("SABOT_", "LD_PRELOAD"))}
    variables.update(OMP_NUM_THREADS="1", **environment)
    process = subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=variables, cwd=folder, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        raise AssertionError(f"no end within {deadline_s} s: {' '.join(map(str, words))}\n{text}")
    return Outcome(process.returncode, text)
