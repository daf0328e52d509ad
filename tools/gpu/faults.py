"""Each action of a scenario on the real NCCL, seen by the application; one table.

    python3 faults.py PATH_OF_SABOT [--ranks N] [--out FILE]

Runs the jobs of fault_jobs.py under `sabot run`, each with its scenario and a deadline. One process
goes through many cases, because starting PyTorch costs more than a case; what ends a process has
one of its own. Jobs of torch.distributed run on N ranks, one a GPU. Exit status 0 only if all is
as it must be, and every fault fired."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

JOB_SECONDS = 90
SCENARIOS = {
    "torch": [
        ("warm-up", 'call = "AllReduce", nth = 1', 'delay = "1ms"'),
        ("a-delay", 'call = "AllReduce", nth = 2, rank = 0', 'delay = "100ms"'),
        ("a-hang", 'call = "AllReduce", nth = 3, rank = 0', 'hang = "150ms"'),
        ("a-stall", 'call = "AllReduce", nth = 4', 'delay = "100ms", on = "host"'),
        ("an-error", 'call = "AllReduce", nth = 5', 'error = "SystemError"'),
        ("a-nan", 'call = "AllReduce", nth = 6, rank = 0', 'corrupt = "nan", elements = 2'),
        ("a-bit", 'call = "AllGather", nth = 1', 'corrupt = "bit-flip"'),
        ("zeros", 'call = "AllGather", nth = 2', 'corrupt = "zero", at = "after", elements = 3'),
        ("stale", 'call = "AllGather", nth = 3', 'corrupt = "stale", at = "after", elements = 2'),
        (
            "scaled",
            'call = "AllGather", nth = 4',
            'corrupt = "scale", by = 2.5, at = "after", elements = 4',
        ),
        ("captured-delay", 'call = "AllReduce", captured = true', 'delay = "50ms"'),
        ("captured-bit", 'call = "AllGather", captured = true', 'corrupt = "bit-flip"'),
    ],
    "torch-abort": [("stuck", 'call = "AllReduce", nth = 2', "hang = true")],
    "torch-async-error": [("lost", 'call = "AllReduce", nth = 2', 'async_error = "RemoteError"')],
    # Communicators of one process, in the order in which fault_jobs.py makes them.
    "nccl": [
        ("stuck", 'call = "AllReduce", comm = ["c1", "c3", "c5", "c7"]', "hang = true"),
        ("caller", 'call = "AllReduce", comm = "c8"', 'hang = true, on = "host"'),
        ("lost", 'call = "AllReduce", comm = "c9", nth = 2', 'async_error = "RemoteError"'),
        (
            "a-bit",
            'call = "AllReduce", comm = "c10", nth = 2',
            'corrupt = "bit-flip", at = "after"',
        ),
        ("a-delay", 'call = "AllReduce", comm = "c10", nth = 1', 'delay = "80ms"'),
        ("exhausted", 'call = "AllReduce", comm = "c10", nth = 3', 'exhaust = "allocation"'),
        ("left-out", 'call = "AllReduce", comm = "c11"', "skip = true"),
        ("late", 'call = "AllReduce", comm = "c11"', 'delay = "300ms"'),
    ],
    "nccl-control": [("stuck", 'call = "AllReduce"', "hang = true")],
    "nccl-crash": [("killed", 'call = "AllReduce"', 'crash = "SIGKILL"')],
}
# With one rank nobody waits for who did not come.
ALONE = [("left-out", 'call = "AllGather", nth = 5', "skip = true")]


def scenario_of(job, ranks):
    faults = SCENARIOS[job] + (ALONE if job == "torch" and ranks == 1 else [])
    lines = ["sabot = 1", f'name = "{job}"']
    for name, when, do in faults:
        lines += ["[[fault]]", f'name = "{name}"', f"when = {{ {when} }}", f"do = {{ {do} }}"]
    return "\n".join(lines) + "\n"


def start_ranks(job, ranks):
    """Inside `sabot run`: the job once for each rank."""
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "fault_jobs.py"), job]
    if ranks == 1 or not job.startswith("torch"):
        os.execv(sys.executable, command)
    children = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks))
        children.append(subprocess.Popen(command, env=environment))
    codes = [child.wait() for child in children]
    sys.exit(next((code if code > 0 else 128 - code for code in codes if code), 0))


class Job:
    def __init__(self, sabot, name, ranks, folder):
        self.sabot, self.name, self.folder = sabot, name, os.path.join(folder, name)
        self.rows = []
        scenario = os.path.join(folder, name + ".toml")
        with open(scenario, "w") as file:
            file.write(scenario_of(name, ranks))
        command = [sabot, "run", "--engine", "real", "--scenario", scenario]
        command += ["--run-folder", self.folder, "--require-fired", "--", sys.executable, __file__]
        command += ["--inside", name, "--ranks", str(ranks), sabot]
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(os.environ, TORCH_NCCL_DUMP_ON_TIMEOUT="0"),
        )

    def row(self, case, seen, is_right):
        self.rows.append({"case": case, "rank": "", "seen": seen, "right": is_right})

    def release(self):
        """Reads up to HELD, releases by `sabot ctl`, tells the job."""
        text = ""
        for line in self.child.stdout:
            text += line
            if line.startswith("HELD"):
                break
        else:
            return text  # it ended before
        began = time.perf_counter()
        done = subprocess.run(
            [self.sabot, "ctl", self.folder, "release"], capture_output=True, text=True
        )
        took = (time.perf_counter() - began) * 1e3
        self.child.stdin.write("released\n")
        self.child.stdin.flush()
        is_right = done.returncode == 0
        said = (done.stdout + done.stderr).strip().splitlines()
        self.row("sabot ctl, the command", f"{took:.0f} ms; {said[-1] if said else ''}", is_right)
        return text

    def finish(self):
        text = self.release() if self.name == "nccl-control" else ""
        try:
            text += self.child.communicate(timeout=JOB_SECONDS)[0]
        except subprocess.TimeoutExpired:
            self.child.kill()
            text += self.child.communicate()[0]
            self.row("the job", f"no end within {JOB_SECONDS} s", False)
        for line in text.splitlines():
            if line.startswith("ROW "):
                self.rows.append(json.loads(line[4:]))
        self.judge(text, self.child.returncode)
        return text

    def judge(self, text, code):
        is_over = re.search(r"\[sabot\] run ended: .*", text)
        ended = is_over.group(0)[8:] if is_over else "no word of the end of the run"
        if self.name == "nccl-crash":
            self.row("crash by SIGKILL", f"status {code}", code == 137 and "ALIVE" not in text)
        elif self.name == "torch-async-error":
            is_seen = "remote process exited" in text and "watchdog" in text.lower()
            self.row(
                "async_error under PyTorch",
                f"status {code}, named by the watchdog: {is_seen}",
                code == 134 and is_seen,
            )
        elif code != 0:
            self.row("the job", f"status {code}; {ended}", False)


def table(jobs):
    lines = ["| job | case | rank | seen | as it must be |", "|---|---|---|---|---|"]
    for job in jobs:
        for entry in job.rows:
            verdict = "yes" if entry["right"] else "**no**"
            lines.append(
                f"| {job.name} | {entry['case']} | {entry['rank']} | {entry['seen']} | {verdict} |"
            )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sabot")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--jobs", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--inside", help="for the job itself")
    arguments = parser.parse_args()
    if arguments.inside:
        start_ranks(arguments.inside, arguments.ranks)
    with tempfile.TemporaryDirectory() as folder:
        jobs, texts = [], []
        for name in arguments.jobs:
            jobs.append(Job(arguments.sabot, name, arguments.ranks, folder))
            texts.append(jobs[-1].finish())
            if not all(entry["right"] for entry in jobs[-1].rows) or not jobs[-1].rows:
                print(f"--- {name}\n{texts[-1]}")
    printed = table(jobs)
    print(printed)
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.write(printed)
    rows = [entry for job in jobs for entry in job.rows]
    right = sum(entry["right"] for entry in rows)
    print(f"faults on the real NCCL: {right} of {len(rows)} as they must be")
    return 0 if right == len(rows) and all(job.rows for job in jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
