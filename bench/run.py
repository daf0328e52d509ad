"""Runs the benchmarks, prints tables and writes build/bench/NAME.json.

    python3 bench/run.py --build BUILD_FOLDER [--only interposition,startup,host] [--quick]

Ours and the peer are measured in the same run, in alternation; figures are medians. A ratio is
peer time over our time: above 1, ours is faster. Each table includes the peer against itself: a
bar closer than that spread counts as met within it. Rows: {"case", "ours", "peer", "peer_name",
"ratio", "unit", "bar", "met"}."""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def environment():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "system": (
            platform.freedesktop_os_release().get("PRETTY_NAME", "")
            if sys.version_info >= (3, 10)
            else ""
        ),
    }


def library(build, name):
    """Its path. The loader would say nothing of a missing one, and we would measure the peer."""
    path = build / "sabot" / "lib" / name
    if not path.exists():
        raise SystemExit(f"{path} is missing; build it first")
    return str(path)


def measure(command, env=None):
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=300
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-500:]}"
        )
    return float(done.stdout.split()[-1])


def interleaved(rounds, subjects):
    """{name: median}, each subject measured once a round."""
    seen = {name: [] for name, _ in subjects}
    for _ in range(rounds):
        for name, run in subjects:
            seen[name].append(run())
    return {name: statistics.median(values) for name, values in seen.items()}


def row(case, cost, peer, bar, met=None, unit="ns"):
    """cost: (ours, the peer's); peer: its name; bar: what was asked; met: None if nothing."""
    ours, theirs = cost
    ratio = round(theirs / ours, 3) if ours > 0 else None
    return {"case": case, "ours": round(ours, 4), "peer": round(theirs, 4), "peer_name": peer,
            "ratio": ratio, "unit": unit, "bar": bar, "met": met}


def write(name, rows):
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"environment": environment(), "rows": rows}, indent=1)
    (folder / f"{name}.json").write_text(text + "\n")
    print(f"\n{name}  (build/bench/{name}.json)")
    width = max(len(r["case"]) for r in rows)
    for r in rows:
        verdict = {None: "", True: "ok", False: "MISSED"}[r["met"]]
        print(
            f'  {r["case"]:<{width}}  ours {r["ours"]:>11.3f}  {r["peer_name"]:<8}'
            f'{r["peer"]:>11.3f} {r["unit"]:<3}{r["ratio"] or 0:8.2f}x  {r["bar"]:<22} {verdict}'
        )
    return all(r["met"] is not False for r in rows)


def silent_faults():
    """Fifty faults on the very function that is called, none of which fires: those of other ranks,
    sizes, attempts and comms, those whose time has not come, and those that count each call."""
    conditions = [f"rank={n}" for n in range(1, 11)]
    conditions += [f"bytes>={n}MiB" for n in range(1, 11)]
    conditions += [f"attempt={n}" for n in range(1, 6)]
    conditions += [f"comm=c{n},nth={n}" for n in range(1, 11)]
    conditions += [f"after={n}h" for n in range(1, 6)]
    conditions += [f"nth={10**9 + n}" for n in range(8)]
    conditions += [f"bytes<={n}MiB,every={10**9}" for n in range(1, 3)]
    assert len(conditions) == 50
    return line_of(conditions)


def counting_faults():
    """The dearest fifty: each counts every call, by a trigger of its own."""
    return line_of(f"bytes<={n}MiB,every={10**9}" for n in range(1, 51))


def line_of(conditions):
    return ";".join(f"AllReduce[{each}]=error(SystemError)" for each in conditions)


def interposition(build, rounds):
    program = build / "bench" / "bench_call_cost"
    preload = {"LD_PRELOAD": library(build, "libsabot.so"), "SABOT_ENGINE": "real"}
    host = {"LD_PRELOAD": library(build, "standin/libnccl.so.2"), "SABOT_ENGINE": "host"}
    elsewhere = {"SABOT_FAULT": "Broadcast[nth=1]=error(SystemError)", "SABOT_QUIET": "1"}
    silent = {"SABOT_FAULT": silent_faults(), "SABOT_QUIET": "1"}
    counting = {"SABOT_FAULT": counting_faults(), "SABOT_QUIET": "1"}
    subjects = [("direct", {}), ("through", preload), ("again", {}),
                ("elsewhere", preload | elsewhere), ("silent", preload | silent),
                ("counting", preload | counting),
                ("host", host), ("host again", host), ("host silent", host | silent)]
    cost = interleaved(
        rounds, [(name, lambda env=env: measure([program], env)) for name, env in subjects]
    )

    def against(case, name, peers, limit):
        """peers: the same subject, measured twice."""
        peer, spread = min(cost[p] for p in peers), abs(cost[peers[0]] - cost[peers[1]])
        added = cost[name] - peer
        bar = f"+{added:.1f}, at most +{limit}"
        return row(case, (cost[name], peer), peers[0], bar, added <= limit + spread)

    direct, standin = ("direct", "again"), ("host", "host again")
    direct_cost = min(cost["direct"], cost["again"])
    return write("interposition", [
        row("direct against direct", (cost["again"], cost["direct"]), "direct", "the spread"),
        against("no layer", "through", direct, 5),
        against("log off, fault armed elsewhere", "elsewhere", direct, 25),
        against("50 faults armed here, silent", "silent", direct, 100),
        row("… each counting by itself", (cost["counting"], direct_cost), "direct", "none"),
        row("stand-in against stand-in", (cost["host again"], cost["host"]), "host", "the spread"),
        against("50 faults armed here, stand-in", "host silent", standin, 100),
    ])


def startup(build, rounds):
    def run(env):
        started = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)
        return (time.perf_counter() - started) * 1e3

    plain = dict(os.environ)
    loaded = {**plain, "LD_PRELOAD": library(build, "libsabot.so")}
    subjects = [("plain", plain), ("loaded", loaded), ("again", plain)]
    cost = interleaved(rounds * 100, [(name, lambda env=env: run(env)) for name, env in subjects])
    spread = abs(cost["again"] - cost["plain"])
    added = cost["loaded"] - min(cost["plain"], cost["again"])
    bar = f"+{added:.3f}, at most +0.3"
    return write("startup", [
        row("/bin/true twice", (cost["again"], cost["plain"]), "plain", "the spread", unit="ms"),
        row("/bin/true preloaded", (cost["loaded"], cost["plain"]), "plain", bar,
            added <= 0.3 + spread, "ms"),
    ])


def host_subjects(build, ranks, size):
    """The same all-reduce through us, Open MPI and Gloo."""
    programs = build / "bench"
    mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = [shutil.which("mpirun"), "--oversubscribe", "-np", str(ranks)]

    def options(most):
        iterations = max(2, min(2_000_000 // max(size, 2000), most))
        return ["--ranks", str(ranks), "--bytes", str(size), "--iterations", str(iterations)]

    ours, theirs = programs / "bench_host_allreduce", programs / "bench_mpi_allreduce"
    gloo = programs / "bench_gloo_allreduce"
    return [
        ("ours", lambda: measure([ours] + options(1000), {"SABOT_ENGINE": "host"})),
        ("OpenMPI", lambda: measure(mpirun + [theirs] + options(1000), mpi)),
        ("Gloo", lambda: measure([gloo] + options(20))),
    ]


def host(build, rounds, quick):
    sizes = [4, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20]
    rows = []
    for ranks in (2, 4):
        for size in sizes[::3] if quick else sizes:
            cost = interleaved(rounds, host_subjects(build, ranks, size))
            for peer, least in (("OpenMPI", 0.5), ("Gloo", 3)):
                met = cost[peer] / cost["ours"] >= least
                case = f"allreduce {ranks} ranks {size} B"
                pair = (cost["ours"], cost[peer])
                rows.append(row(case, pair, peer, f"at least {least}x", met, "us"))
    return write("host", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="interposition,startup,host")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    options = parser.parse_args()
    rounds = 3 if options.quick else 7
    parts = options.only.split(",")
    met = True
    if "interposition" in parts:
        met &= interposition(options.build.resolve(), rounds)
    if "startup" in parts:
        met &= startup(options.build.resolve(), rounds)
    if "host" in parts:
        met &= host(options.build.resolve(), 3, options.quick)
    print("\nall bars met" if met else "\nsome bars were missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
