"""The fault matrix: which rank sees what, by when, and what still works afterwards.

    python3 matrix.py --check
    python3 matrix.py --list [--subject S]
    python3 matrix.py --subject processes|threads --library LIBNCCL [--only TEXT] [--jobs N]

Rows are data (matrix.toml); README.md says what their words mean. This file reads them strictly,
multiplies them out into cases, runs those of the host engine over the staged stand-in (guest.py)
and holds each against its row and against the laws that hold for all: nothing hangs past its
deadline, no wrong data is reported as success unless the row says so, an abort returns, no process
or file is left behind, and the journal names the fault and its rank. Exit status 1 if anything is
off.
"""

import argparse
import concurrent.futures
import dataclasses
import glob
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
PHASES = ("init", "first", "steady", "group", "graph", "finalize")
SUBJECTS = ("threads", "processes", "torch", "real")
HOST = ("threads", "processes")
SHARED = ("within", "late", "afterwards", "refused")
AFTERWARDS = ("abort", "new-comm", "next-attempt")
SIGHTS = re.compile(r"ok|late|wrong|waits|(error|async) nccl[A-Z]\w+|gone \w+")
ENDS = ("CommFinalize", "CommDestroy", "CommAbort")
FAULTY, RANKS = 1, 3
ABORT_MS = 1000
SLACK_MS = 1500  # of a busy machine, on top of a row's deadline
AGAIN_MAX = 3
GRACE_S = 5  # other tests of Sabot may run beside this one, and clean up after themselves


class Mistake(Exception):
    """A row that does not follow the grammar."""


@dataclasses.dataclass(frozen=True)
class Sight:
    """What one subject shows: the words of the rank with the fault and of the others."""

    faulty: frozenset
    others: frozenset
    within_ms: int
    late_ms: int
    afterwards: frozenset
    refused: str


@dataclasses.dataclass(frozen=True)
class Case:
    row: str
    action: str
    call: str
    phase: str
    subject: str
    sight: Sight

    is_short = False  # the ranks that live make a new communicator at the end

    @property
    def name(self):
        return f"{self.row}/{self.call}/{self.phase}/{self.subject}"

    @property
    def steps(self):
        """The job, and the position of the step under test."""
        if self.phase == "init":
            return ["init", "AllReduce", "destroy"], 0
        if self.phase == "finalize":
            ends = {"CommFinalize": ["finalize", "destroy"], "CommDestroy": ["destroy"],
                    "CommAbort": ["abort"]}[self.call]
            return ["init", "AllReduce", *ends], 2
        work = "SendRecv" if self.call in ("Send", "Recv") else self.call
        job = {"first": [work], "steady": [work] * 3, "group": [f"group:{work},{work}"]}
        return ["init", *job[self.phase], "destroy"], 3 if self.phase == "steady" else 1

    @property
    def fault(self):
        nth = {"steady": 3, "group": 2}.get(self.phase, 1)
        which = f"rank={FAULTY},nth={nth},attempt=0"
        if self.subject != "threads":  # there a world rank is known once the communicator is made
            which = f"world_rank={FAULTY},{which}"  # another may be rank 1 of those that live on
        return f"{self.row}: {self.call}[{which}]={self.action}"


# -- reading

def only_keys(table, known, where):
    for key in table:
        if key not in known:
            raise Mistake(f"{where}: unknown key '{key}'; known here: {', '.join(known)}")


def milliseconds(text, where):
    found = re.fullmatch(r"(\d+)(ms|s)", str(text))
    if not found:
        raise Mistake(f"{where}: expected a duration such as \"500ms\" or \"5s\"; found {text!r}")
    return int(found[1]) * (1000 if found[2] == "s" else 1)


def words(value, known, where):
    values = value if isinstance(value, list) else [value]
    for word in values:
        if word not in known:
            raise Mistake(f"{where}: no {word!r}; known here: {', '.join(known)}")
    return values


def sights(text, where):
    alternatives = frozenset(part.strip() for part in str(text).split("|"))
    for one in alternatives:
        if not SIGHTS.fullmatch(one):
            raise Mistake(f"{where}: {one!r} is nothing that a rank can see; it sees ok, late, "
                          "wrong, waits, \"error ncclX\", \"async ncclX\" or \"gone SIGKILL\"")
    return alternatives


def read_sight(own, row, within, where):
    """own: what this subject says, a pair or a table; row: what holds for all of the row."""
    pair = {"faulty": own[0], "others": own[1]} if isinstance(own, list) and len(own) == 2 else own
    if not isinstance(pair, dict):
        raise Mistake(f"{where}: expected [what rank 1 sees, what the others see] or a table")
    only_keys(pair, ("faulty", "others", *SHARED), where)
    table = {"within": within, **{k: row[k] for k in SHARED if k in row}, **pair}
    for key in ("faulty", "others"):
        if key not in table:
            raise Mistake(f"{where}: '{key}' is missing")
    sight = Sight(
        sights(table["faulty"], f"{where}.faulty"), sights(table["others"], f"{where}.others"),
        milliseconds(table["within"], f"{where}.within"),
        milliseconds(table.get("late", "0ms"), f"{where}.late"),
        frozenset(words(table["afterwards"], AFTERWARDS, f"{where}.afterwards")),
        str(table.get("refused", "")))
    if ("late" in sight.faulty | sight.others) != (sight.late_ms > 0):
        raise Mistake(f"{where}: 'late' is a sight and a time; give both or neither")
    return sight


def subjects_of(row):
    """What the row says of each subject: the narrower word wins."""
    wide = {subject: row["all"] for subject in SUBJECTS if "all" in row}
    host = {subject: row["host"] for subject in HOST if "host" in row}
    return wide | host | {subject: row[subject] for subject in SUBJECTS if subject in row}


def read_row(row, index, sets, defaults):
    where = f"row {index + 1}"
    only_keys(row, ("name", "do", "calls", "phases", "all", "host", *SUBJECTS, *SHARED), where)
    for key in ("name", "do", "calls", "phases"):
        if key not in row:
            raise Mistake(f"{where}: '{key}' is missing")
    where = f"row '{row['name']}'"
    if not re.fullmatch(r"[a-z0-9-]{1,60}", row["name"]):
        raise Mistake(f"{where}: a name has small letters, digits and '-'")
    calls = sets.get(row["calls"]) if isinstance(row["calls"], str) else row["calls"]
    if not calls:
        raise Mistake(f"{where}: no set of calls is called {row['calls']!r}; known: "
                      + ", ".join(sets))
    phases = words(row["phases"], PHASES, f"{where}.phases")
    subjects = subjects_of(row)
    if not subjects:
        raise Mistake(f"{where}: says of no subject what it shows")
    for subject, own in subjects.items():
        within = defaults["within"][subject]
        shared = {"afterwards": defaults["afterwards"], **row}
        sight = read_sight(own, shared, within, f"{where}.{subject}")
        for call in calls:
            for phase in phases:
                if (phase == "finalize") != (call in ENDS) or (phase == "init") != ("Init" in call):
                    raise Mistake(f"{where}: {call} is not called in phase '{phase}'")
                if phase == "graph" and subject != "real":
                    continue  # only real streams are captured
                yield Case(row["name"], row["do"], call, phase, subject, sight)


def read(text):
    """All cases of a matrix."""
    data = tomllib.loads(text)
    only_keys(data, ("sets", "default", "row"), "the matrix")
    sets, defaults = data.get("sets", {}), data.get("default", {})
    only_keys(defaults, ("within", "afterwards"), "default")
    only_keys(defaults.get("within", {}), SUBJECTS, "default.within")
    missing = [subject for subject in SUBJECTS if subject not in defaults.get("within", {})]
    if missing or "afterwards" not in defaults:
        raise Mistake(f"default: says nothing of {', '.join(missing) or 'afterwards'}")
    cases, seen = [], set()
    for index, row in enumerate(data.get("row", [])):
        cases += read_row(row, index, sets, defaults)
        if row["name"] in seen:
            raise Mistake(f"row '{row['name']}' is there twice")
        seen.add(row["name"])
    if not cases:
        raise Mistake("the matrix has no row")
    return cases


# -- running

@dataclasses.dataclass
class Job:
    """One start of all ranks: what they said, how they ended, what they left."""

    lines: list
    ends: list  # per rank (processes) or one for all (threads): exit status, negative: signal
    problems: list
    stderr: str


def start(case, library, folder, attempt):
    marks = pathlib.Path(folder, f"marks-{attempt}")
    marks.mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SABOT_", "NCCL_"))}
    env.update(SABOT_ENGINE="host", SABOT_QUIET="1", SABOT_RUN_FOLDER=f"{folder}/run",
               SABOT_FAULT=case.fault, TORCHELASTIC_RESTART_COUNT=str(attempt))
    pathlib.Path(folder, "run").mkdir(exist_ok=True)
    patience = case.sight.within_ms / 1e3
    command = [sys.executable, "-B", str(HERE / "guest.py"), "--library", library,
               "--ranks", str(RANKS), "--folder", str(marks), "--patience", str(patience)]
    command += ["--short"] if case.is_short else []
    own = [[]] if case.subject == "threads" else [["--rank", str(r)] for r in range(RANKS)]
    started = []
    for rank, arguments in enumerate(own):
        where = {"RANK": str(rank), "WORLD_SIZE": str(RANKS)} if arguments else {}
        started.append(subprocess.Popen(
            command + arguments + case.steps[0], env={**env, **where}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
    return started


def finish(started, deadline_s):
    """Waits for all; whoever is alive at the deadline is ended with all its children."""
    until, lines, problems, errors = time.monotonic() + deadline_s, [], [], []
    for process in started:
        try:
            out, err = process.communicate(timeout=max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            problems.append(f"process {process.pid} had to be ended at the deadline")
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        lines += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        errors.append(err[-1000:])
        if alive_in_session(process.pid):
            problems.append(f"process {process.pid} left children behind")
            os.killpg(process.pid, signal.SIGKILL)
    return Job(lines, [process.returncode for process in started], problems, "".join(errors))


def alive_in_session(session):
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = pathlib.Path(stat).read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            return True
    return False


def shared_files():
    return {path.name for path in pathlib.Path("/dev/shm").glob("*sabot*")}


def sight_of(case, job, rank):
    """The word for what this rank saw: its first trouble, else the step under test; its line."""
    own = [line for line in job.lines if line["rank"] == rank and "step" in line]
    for line in own[:case.steps[1] + 1]:
        if line.get("waits"):
            return "waits", line
        if line["result"] != "ncclSuccess":
            return f"error {line['result']}", line
        if line["reported"]:
            return f"async {line['reported']}", line
        if line["data"] is False:
            return "wrong", line
    if len(own) <= case.steps[1]:
        end = job.ends[0 if case.subject == "threads" else rank]
        return f"gone {signal.Signals(-end).name if end < 0 else end}", None
    line = own[case.steps[1]]
    return ("late" if 0 < case.sight.late_ms <= line["ms"] else "ok"), line


def judge_ranks(case, job):
    for rank in range(RANKS):
        expected = case.sight.faulty if rank == FAULTY else case.sight.others
        seen, line = sight_of(case, job, rank)
        if seen not in expected:
            told = f": {line['text']}" if line and line.get("text") else ""
            yield f"rank {rank} saw '{seen}', not '{'|'.join(sorted(expected))}'{told}"
        elif line and "result" in line and line["ms"] > case.sight.within_ms + SLACK_MS \
                and seen != "waits":
            yield f"rank {rank} saw '{seen}' after {line['ms']} ms only"
        is_injected = case.action.startswith(("error", "exhaust"))
        if rank == FAULTY and is_injected and f'"{case.row}"' not in (line or {}).get("text", ""):
            yield f"rank {rank} was not told which fault it is: {line}"


def judge_afterwards(case, job):
    for line in job.lines:
        if "aborted" in line and (line["aborted"] != "ncclSuccess" or line["ms"] > ABORT_MS):
            yield f"rank {line['rank']}: abort gave {line['aborted']} after {line['ms']} ms"
        if "stuck" in line and "abort" in case.sight.afterwards:
            yield f"rank {line['rank']} stayed in {line['stuck']} after it was aborted"
    gone = [r for r in range(RANKS) if sight_of(case, job, r)[0].startswith("gone")]
    again = {line["rank"]: line for line in job.lines if "again" in line}
    if "new-comm" not in case.sight.afterwards:
        return
    for rank in range(RANKS):
        if rank not in gone and not again.get(rank, {}).get("again"):
            yield f"rank {rank}: a new communicator does not work: {again.get(rank)}"


def judge_ends(case, job):
    for index, end in enumerate(job.ends):
        ranks = range(RANKS) if case.subject == "threads" else [index]
        allowed = {f"gone {signal.Signals(-end).name if end < 0 else end}"}
        words_seen = case.sight.faulty if FAULTY in ranks else case.sight.others
        if end != 0 and not allowed & words_seen and "abort" in case.sight.afterwards:
            yield f"process of rank {ranks[0]} ended with {end}: {job.stderr[-300:]}"


def journal_of(folder):
    lines = []
    for path in glob.glob(f"{folder}/run/journal/*.jsonl"):
        lines += [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return lines


def firings(folder):
    """Faults and ranks, as the journal has them."""
    return [(line.get("fault"), line.get("rank")) for line in journal_of(folder)
            if not line.get("refused")]


def judge_journal(case, folder):
    lines, fired = journal_of(folder), firings(folder)
    refused = [line["refused"] for line in lines if line.get("refused")]
    if fired != [(case.row, FAULTY)]:
        yield f"the journal tells of {fired}, not of one firing of {case.row} on rank {FAULTY}"
    if case.sight.refused and not any(case.sight.refused in text for text in refused):
        yield f"the journal says nothing of a refusal with '{case.sight.refused}': {lines}"
    if not case.sight.refused:
        yield from (f"refused: {text}" for text in refused)


def judge_next_attempt(case, library, folder):
    job = finish(start(case, library, folder, 1), 60)
    yield from (f"next attempt: {problem}" for problem in job.problems)
    done = [line for line in job.lines if "result" in line]
    bad = [line for line in done if line["result"] != "ncclSuccess" or line["data"] is False]
    if bad or len(done) != RANKS * len(case.steps[0]):
        yield f"next attempt: {bad or done} {job.stderr[-300:]}"


def run(case, library):
    """Everything that is off about a case."""
    before = shared_files()
    with tempfile.TemporaryDirectory(prefix="sabot-matrix-") as folder:
        job = finish(start(case, library, folder, 0), 6 * case.sight.within_ms / 1e3 + 40)
        off = [*job.problems, *judge_ranks(case, job), *judge_afterwards(case, job),
               *judge_ends(case, job), *judge_journal(case, folder)]
        if "next-attempt" in case.sight.afterwards:
            off += judge_next_attempt(case, library, folder)
        until = time.monotonic() + GRACE_S
        while (left := shared_files() - before) and time.monotonic() < until:
            time.sleep(0.1)
        if left:
            off.append(f"left in /dev/shm: {', '.join(sorted(left))}")
    return off


def tell(case, off):
    print(("FAILED  " if off else "ok      ") + case.name, flush=True)
    for line in [*off, f"fault: {case.fault}"] if off else []:
        print(f"        {line}", flush=True)


def run_all(cases, library, jobs):
    """How many cases fail. What failed beside others gets its processor for itself once more: the
    deadlines are those of a job, and a machine that is busy elsewhere breaks them for nobody's
    fault. More than a few are no accident."""
    failed = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(run, case, library): case for case in cases}
        for done in concurrent.futures.as_completed(waiting):
            tell(waiting[done], done.result())
            if done.result():
                failed.append(waiting[done])
    if 0 < len(failed) <= AGAIN_MAX:
        print(f"once more, alone: {len(failed)}")
        again = [(case, run(case, library)) for case in failed]
        for case, off in again:
            tell(case, off)
        failed = [case for case, off in again if off]
    print(f"{len(cases) - len(failed)} of {len(cases)} cases hold")
    return len(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--matrix", type=pathlib.Path, default=HERE / "matrix.toml")
    parser.add_argument("--check", action="store_true", help="read the matrix, run nothing")
    parser.add_argument("--list", action="store_true", help="print the cases, run nothing")
    parser.add_argument("--subject", choices=SUBJECTS)
    parser.add_argument("--library", help="the stand-in, libnccl.so.2")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    try:
        cases = read(options.matrix.read_text(encoding="utf-8"))
    except (Mistake, tomllib.TOMLDecodeError) as mistake:
        print(f"{options.matrix}: {mistake}", file=sys.stderr)
        return 2
    cases = [case for case in cases if options.only in case.name
             and options.subject in (None, case.subject)]
    if options.list:
        print("\n".join(f"{case.name}  {case.fault}" for case in cases))
    if options.list or options.check:
        return 0
    if options.subject not in HOST or not options.library:
        parser.error("runs --subject threads or processes with --library; the others need torch "
                     "or GPUs and are run by their own suites")
    return 1 if run_all(cases, options.library, options.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
