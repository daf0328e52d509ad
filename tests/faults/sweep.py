"""The counting sweep: fails the 1st, 2nd … N-th call of one rank, until a run passes clean.

    python3 sweep.py --library LIBNCCL [--job NAME]

Each job is run once for each call that rank 1 makes: that call returns an error, whichever it is
and wherever it stands. What each of the others sees is the matrix's to say; here the standing laws
hold for every call of a job: nobody hangs past the deadline, nobody takes wrong data for a success,
the journal tells of the one firing, nothing is left, and the next attempt passes. It ends with the
first N that no call has any more, and that run is clean.
"""

import argparse
import sys
import tempfile
import time

import matrix

CALLS_MAX = 60
DEADLINE_S = 60
JOBS = {
    "collectives": ["init", "AllReduce", "Broadcast", "AllGather", "finalize", "destroy"],
    "groups": ["init", "group:AllReduce,ReduceScatter", "SendRecv", "AlltoAll", "abort"],
}


class Case:
    """A run of a job in which the N-th call of rank 1 fails; what matrix.start() asks for."""

    row, subject, is_short = "sweep", "processes", True
    sight = matrix.Sight(frozenset(), frozenset(), 1500, 0, frozenset(), "")

    def __init__(self, steps, number):
        self.steps = (steps, 0)
        self.fault = (f"sweep: any[world_rank={matrix.FAULTY},nth={number},attempt=0]"
                      "=error(SystemError)")


def off_of(job):
    yield from job.problems
    yield from (f"wrong data: {line}" for line in job.lines
                if line.get("result") == "ncclSuccess" and line["data"] is False)
    yield from (f"stuck: {line}" for line in job.lines if "stuck" in line)
    yield from (f"exit status {end}: {job.stderr[-300:]}" for end in job.ends if end != 0)
    yield from (f"slow abort: {line}" for line in job.lines
                if "aborted" in line and line["ms"] > matrix.ABORT_MS)


def is_clean(job, steps):
    done = [line for line in job.lines if "result" in line]
    return len(done) == matrix.RANKS * len(steps) and all(
        line["result"] == "ncclSuccess" and line["data"] is not False for line in done)


def run(steps, number, library):
    """Whether the fault fired, and everything that is off."""
    before = matrix.shared_files()
    with tempfile.TemporaryDirectory(prefix="sabot-sweep-") as folder:
        case = Case(steps, number)
        job = matrix.finish(matrix.start(case, library, folder, 0), DEADLINE_S)
        off = list(off_of(job))
        fired = matrix.firings(folder)
        if fired not in ([], [("sweep", matrix.FAULTY)]) and fired != [("sweep", None)]:
            off.append(f"the journal tells of {fired}")
        if not fired and not is_clean(job, steps):
            off.append(f"nothing fired, and the job is not clean: {job.lines}")
        after = matrix.finish(matrix.start(case, library, folder, 1), DEADLINE_S)
        if not is_clean(after, steps):
            off.append(f"next attempt: {after.lines} {after.stderr[-300:]}")
        until = time.monotonic() + matrix.GRACE_S
        while (left := matrix.shared_files() - before) and time.monotonic() < until:
            time.sleep(0.1)
        if left:
            off.append(f"left in /dev/shm: {', '.join(sorted(left))}")
    return bool(fired), off


def sweep(name, steps, library):
    """How many calls were failed one by one, and after how many of them a law was broken."""
    failed = 0
    for number in range(1, CALLS_MAX):
        has_fired, off = run(steps, number, library)
        failed += bool(off)
        what = f"call {number} fails" if has_fired else f"no call {number}: clean"
        print(f"{'FAILED ' if off else 'ok     '} {name}: {what}", flush=True)
        for line in off:
            print(f"        {line}", flush=True)
        if not has_fired:
            return number - 1, failed
    return CALLS_MAX, failed + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--library", required=True, help="the stand-in, libnccl.so.2")
    parser.add_argument("--job", choices=JOBS, help="only this one")
    options = parser.parse_args()
    results = [sweep(name, steps, options.library) for name, steps in JOBS.items()
               if options.job in (None, name)]
    calls, failed = (sum(column) for column in zip(*results))
    print(f"{calls} calls failed one by one, {failed} laws broken")
    return 1 if failed or not all(count for count, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
