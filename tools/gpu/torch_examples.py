"""The examples of examples/torch on GPUs: unchanged programs, stock PyTorch, transcripts checked.

    python3 torch_examples.py TREE        TREE: the staged tree, for `sabot` and the Python package

elastic_resume runs calm and under its scenario, and must end with the same weights; hang_detective
must convict rank 1 from the flight recorder's files; error_matrix must show the classes that
PyTorch raises. Exit status 1 if one of them differs.
"""

import os
import pathlib
import re
import subprocess
import sys

EXAMPLE_SECONDS = 110
SCENARIO = "examples/scenarios/elastic-resume.toml"


def run(words, tree):
    environment = {**os.environ, "PYTHONPATH": str(tree / "python"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=environment,
                          timeout=EXAMPLE_SECONDS, check=False)
    print("$", *words)
    print(f"{done.stdout}exit status {done.returncode}\n", flush=True)
    return done


def weights(text):
    return set(re.findall(r"done after step 12, weights (\w{16})", text))


def elastic_resume(tree):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                "--max-restarts", "1", "examples/torch/elastic_resume.py"]
    calm = run(torchrun, tree)
    broken = run([tree / "bin/sabot", "run", "--require-fired", "--scenario", SCENARIO, "--",
                  *torchrun], tree)
    resumed = "attempt 1 rank 0: begins after step 7" in broken.stdout
    same = len(weights(calm.stdout)) == 1 and weights(calm.stdout) == weights(broken.stdout)
    return calm.returncode == 0 and broken.returncode == 0 and resumed and same


def hang_detective(tree):
    done = run([tree / "bin/sabot", "run", "--", sys.executable,
                "examples/torch/hang_detective.py"], tree)
    return done.returncode == 0 and "flight recorder: rank 1 never entered" in done.stdout


def error_matrix(tree):
    done = run([tree / "bin/sabot", "run", "--engine", "real", "--", sys.executable,
                "examples/torch/error_matrix.py"], tree)
    rows = re.findall(r"^(\w+) +(\w+) +(\w+Error) +(yes|no)", done.stdout, re.MULTILINE)
    return done.returncode == 0 and ("AllReduce", "SystemError", "DistBackendError", "yes") in rows


def main():
    tree = pathlib.Path(sys.argv[1]).resolve()
    verdicts = {}
    for example in (elastic_resume, hang_detective, error_matrix):
        try:
            verdicts[example.__name__] = example(tree)
        except subprocess.TimeoutExpired as error:
            print(f"{example.__name__}: no end within {EXAMPLE_SECONDS} s\n"
                  f"{(error.stdout or b'').decode(errors='replace')}")
            verdicts[example.__name__] = False
    told = [f"{name} {'ok' if fine else 'FAILED'}" for name, fine in verdicts.items()]
    print("examples:", ", ".join(told))
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
