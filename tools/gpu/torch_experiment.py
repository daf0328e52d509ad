"""The experiment of the README on a GPU: examples/torch/allreduce.py under a scenario must fail as
a real NCCL error would, and name the fault.

    python3 torch_experiment.py PATH_OF_SABOT
"""

import re
import subprocess
import sys

COMMAND = [
    "run",
    "--scenario",
    "examples/scenarios/allreduce-system-error.toml",
    "--",
    sys.executable,
    "examples/torch/allreduce.py",
]
EXPECTED = [
    r"torch\.distributed\.DistBackendError",
    r"ncclSystemError: System call",
    r"Last error:\n.*injected by Sabot: fault \"nic-dies\" of scenario",
    r"\[sabot\] run ended: .*planned 1, fired 1",
]


def main():
    done = subprocess.run([sys.argv[1]] + COMMAND, capture_output=True, text=True, timeout=110)
    output = done.stdout + done.stderr
    print(output)
    missing = [pattern for pattern in EXPECTED if not re.search(pattern, output)]
    for pattern in missing:
        print(f"not in the output: {pattern}")
    if done.returncode == 0:
        print("the job succeeded, although its all-reduce was made to fail")
    print(
        "experiment:",
        "failed" if missing or done.returncode == 0 else "seen by Python as a real NCCL error",
    )
    return 1 if missing or done.returncode == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
