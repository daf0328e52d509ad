#!/usr/bin/env python3
"""PyTorch's own DistributedTest against our backend, with gloo as the control.

    conformance.py check [--answers] [--worlds 2,3] [--backend sabot]
    conformance.py run --backend NAME --world N --out FILE [--answers NAME] [TEST…]
    conformance.py compare CONTROL.json OURS.json
    conformance.py table                                        the list as in docs/torch.md

The law: no test that passes with gloo fails or is skipped with ours, apart from the rows of
known_gates.toml, each with its reason. A difference without a row is an error, and so is a row
without a difference. Many tests are skipped for no other reason than the backend's name: with
--answers they run on our backend all the same, and must then do what their row says. Every test
has a deadline; a hang is a failure of that test alone.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "conformance-torch"
TEST_SECONDS = 60
RUN_SECONDS = 1800  # bounds a whole world; a full one takes minutes
OUTPUT_TAIL = 4000


class Gates:
    """The differences that are accepted: {(test, world): (our result, reason)}."""

    def __init__(self, path=HERE / "known_gates.toml"):
        with open(path, "rb") as file:
            self.rows = tomllib.load(file)["gate"]
        self.known = {}
        for row in self.rows:
            for test in row["tests"]:
                for world in row.get("worlds", [2, 3]):
                    self.known[test, world] = row


def differences(control, ours, gates):
    """What breaks the law, as sentences; both results are those of one world."""
    world, found = ours["world"], []
    theirs, name_of_ours = control["backend"], ours["backend"]
    for name, row in sorted(control["tests"].items()):
        mine = ours["tests"].get(name, {"result": "missing", "reason": "it did not run"})
        differs = row["result"] == "passed" and mine["result"] != "passed"
        known = gates.known.get((name, world))
        told = (f"{name}, world {world}: {row['result']} with {theirs}, {mine['result']} with"
                f" {name_of_ours}")
        if differs and (known is None or known["ours"] != mine["result"]):
            found.append(f"{told}: {mine['reason']}")
        elif known is not None and not differs:
            found.append(f"{told}; remove its row from known_gates.toml")
    return found


def misnamed(control, answered, gates):
    """What goes wrong with ours where the suite takes it for gloo, as sentences."""
    world, found = answered["world"], []
    for name, row in sorted(control["tests"].items()):
        mine = answered["tests"][name]
        known = gates.known.get((name, world), {})
        expected = known.get("answered", "passed")
        if row["result"] == "passed" and mine["result"] != expected:
            found.append(f"{name}, world {world}, taken for gloo: {mine['result']}, not {expected}:"
                         f" {mine['reason']}")
    return found


def beyond(control, answered):
    """How much passes with ours, taken for MPI, that gloo does not have."""
    passed = [name for name, row in answered["tests"].items() if row["result"] == "passed"
              and control["tests"][name]["result"] != "passed"]
    failed = [name for name, row in answered["tests"].items() if row["result"] == "failed"]
    return (f"taken for MPI, world {answered['world']}: {len(passed)} tests pass that gloo skips;"
            f" failed: {', '.join(failed) or 'none'}")


def counts(results):
    seen = [row["result"] for row in results["tests"].values()]
    parts = [f"{seen.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")]
    name = results["backend"] + (f" as {results['answers']}" if results["answers"] else "")
    return f"{name:<14} world {results['world']}: " + ", ".join(parts)


def short(text):
    """The line of a failure that says what happened: the last one of a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line.split(":")[0]]
    return (errors or lines or [""])[-1][:300]


def one(case_class, name, output):
    """Runs one test to its end, whatever happens; returns its row."""
    import unittest

    output.write_bytes(b"")
    case, result, started = case_class(name), unittest.TestResult(), time.monotonic()
    case.run(result)
    for process in getattr(case, "processes", []):
        process.kill()
    row = {"result": "passed", "reason": "", "seconds": round(time.monotonic() - started, 2)}
    if result.skipped:
        row.update(result="skipped", reason=result.skipped[0][1])
    elif result.failures or result.errors:
        text = (result.failures + result.errors)[0][1]
        printed = output.read_text(errors="replace")[-OUTPUT_TAIL:]
        row.update(result="failed", reason=short(text), text=text, output=printed)
    return row


def run(options):
    """One backend at one world size, in this process."""
    output = pathlib.Path(tempfile.mkdtemp(prefix="conformance-")) / "output"
    os.environ.update(
        CONFORMANCE_BACKEND=options.backend, CONFORMANCE_ANSWERS=options.answers,
        CONFORMANCE_OUTPUT=str(output), CONFORMANCE_START=options.start,
        WORLD_SIZE=str(options.world), OMP_NUM_THREADS="1",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(TEST_SECONDS))
    sys.argv = sys.argv[:1]  # the suite parses it
    sys.path.insert(0, str(HERE))
    import logging

    import torch
    from distributed_case import Conformance

    logging.disable(logging.INFO)
    Conformance.setUpClass()
    known = sorted(name for name in dir(Conformance) if name.startswith("test_"))
    chosen = [name for name in options.tests if name in known] if options.tests else known
    results = {"torch": torch.__version__, "backend": options.backend, "world": options.world,
               "answers": options.answers, "tests": {}}
    for name in chosen:
        row = results["tests"][name] = one(Conformance, name, output)
        if row["result"] != "skipped" or options.verbose:
            print(f"{row['result']:<8}{row['seconds']:7.1f} s  {name}  {row['reason']}", flush=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(counts(results), flush=True)
    return 0


def launch(options, backend, world, answers=""):
    """Starts `run` for one subject; returns the process and where its results will be."""
    name = f"{backend}{'-as-' + answers if answers else ''}-{world}"
    out = options.folder / f"{name}.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, __file__, "run", "--backend", backend, "--world", str(world),
               "--answers", answers, "--out", str(out)]
    with open(out.with_suffix(".log"), "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT), out


def finished(process, out):
    """Waits for a run; its results, or None with the reason printed."""
    try:
        status = process.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        status = f"no end within {RUN_SECONDS} s"
    if status != 0:
        print(f"{out.stem}: {status}: {out.with_suffix('.log').read_text()[-2000:]}")
        return None
    results = json.loads(out.read_text())
    print(counts(results), flush=True)
    return results


def check(options):
    """The control and ours at each world size, side by side, and the law."""
    options.folder.mkdir(parents=True, exist_ok=True)
    gates, broken = Gates(), []
    subjects = [(options.control, ""), (options.backend, "")]
    if options.answers:
        subjects += [(options.backend, "gloo"), (options.backend, "mpi")]
    for world in [int(text) for text in options.worlds.split(",")]:
        results = []
        for first in range(0, len(subjects), options.jobs):
            part = [launch(options, backend, world, answers)
                    for backend, answers in subjects[first:first + options.jobs]]
            results += [finished(*started) for started in part]
        if None in results:
            return 1
        broken += differences(results[0], results[1], gates)
        if options.answers:
            broken += misnamed(results[0], results[2], gates)
            print(beyond(results[0], results[3]))
    for text in broken:
        print("error:", text)
    rows = len({test for test, _ in gates.known})
    print(f"conformance: {len(broken)} unexpected differences; {rows} tests are known to differ")
    return 1 if broken else 0


def compare(options):
    control, ours = (json.loads(path.read_text()) for path in (options.control, options.ours))
    broken = differences(control, ours, Gates())
    print("\n".join([counts(control), counts(ours), *broken]))
    return 1 if broken else 0


def table_lines(gates):
    yield "| tests | with ours | taken for gloo | reason |"
    yield "|---|---|---|---|"
    for row in gates.rows:
        names = ", ".join(f"`{name}`" for name in row["tests"])
        answered = row.get("answered", "passed")
        where = f" (world {row['worlds'][0]})" if "worlds" in row else ""
        yield f"| {names}{where} | {row['ours']} | {answered} | {row['reason']} |"


def table(_):
    print("\n".join(table_lines(Gates())))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("check")
    verb.add_argument("--answers", action="store_true",
                      help="also with the suite's conditions answered as for gloo and for mpi")
    verb.add_argument("--worlds", default="2,3")
    verb.add_argument("--backend", default="sabot")
    verb.add_argument("--control", default="gloo")
    verb.add_argument("--jobs", type=int, default=2)
    verb.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    verb.set_defaults(act=check)
    verb = verbs.add_parser("run")
    verb.add_argument("--backend", required=True)
    verb.add_argument("--world", type=int, required=True)
    verb.add_argument("--answers", default="", help="the name that the suite's conditions see")
    verb.add_argument("--start", choices=("fork", "spawn"), default="fork")
    verb.add_argument("--out", type=pathlib.Path, required=True)
    verb.add_argument("--verbose", action="store_true", help="show skipped tests too")
    verb.add_argument("tests", nargs="*")
    verb.set_defaults(act=run)
    verb = verbs.add_parser("compare")
    verb.add_argument("control", type=pathlib.Path)
    verb.add_argument("ours", type=pathlib.Path)
    verb.set_defaults(act=compare)
    verbs.add_parser("table").set_defaults(act=table)
    options = parser.parse_args()
    return options.act(options)


if __name__ == "__main__":
    sys.exit(main())
