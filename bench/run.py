"""Runs the benchmarks, prints tables and writes build/bench/NAME.json.

    python3 bench/run.py --build BUILD_FOLDER [--only interposition,startup,host] [--quick]

Ours and the peer are measured in the same run, in alternation; figures are medians. A ratio is peer time over our
time: above 1, ours is faster. Each table includes the peer against itself: a bar closer than that spread counts as
met within it. Rows: {"case", "ours", "peer", "peer_name", "ratio", "unit", "bar", "met"}.
"""

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
    return {"date": time.strftime("%Y-%m-%d"), "cpu": models[0] if models else platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "system": platform.freedesktop_os_release().get("PRETTY_NAME", "") if sys.version_info >= (3, 10) else ""}


def measure(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


def interleaved(rounds, subjects):
    """{name: median}, each subject measured once a round."""
    seen = {name: [] for name, _ in subjects}
    for _ in range(rounds):
        for name, run in subjects:
            seen[name].append(run())
    return {name: statistics.median(values) for name, values in seen.items()}


def row(case, ours, peer, peer_name, unit, bar, met):
    return {"case": case, "ours": round(ours, 4), "peer": round(peer, 4), "peer_name": peer_name,
            "ratio": round(peer / ours, 3) if ours > 0 else None, "unit": unit, "bar": bar, "met": met}


def write(name, rows):
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"environment": environment(), "rows": rows}, indent=1) + "\n")
    print(f"\n{name}  (build/bench/{name}.json)")
    width = max(len(r["case"]) for r in rows)
    for r in rows:
        verdict = "" if r["met"] is None else ("ok" if r["met"] else "MISSED")
        ratio = f'{r["ratio"]:8.2f}x' if r["ratio"] is not None else "        -"
        print(f'  {r["case"]:<{width}}  ours {r["ours"]:>11.3f}  {r["peer_name"]:<10} {r["peer"]:>11.3f} '
              f'{r["unit"]:<3} {ratio}  {r["bar"]:<22} {verdict}')
    return all(r["met"] is not False for r in rows)


def interposition(build, rounds):
    program = build / "bench" / "bench_call_cost"
    preload = {"LD_PRELOAD": str(build / "sabot/lib/libsabot.so"), "SABOT_ENGINE": "real", "SABOT_QUIET": "1"}
    armed = {**preload, "SABOT_FAULT": "Broadcast[nth=1]=error(SystemError)"}
    cost = interleaved(rounds, [
        ("direct", lambda: measure([program])), ("through", lambda: measure([program], preload)),
        ("again", lambda: measure([program])), ("armed", lambda: measure([program], armed)),
    ])
    direct = min(cost["direct"], cost["again"])
    added = {name: cost[name] - direct for name in ("through", "armed")}
    return write("interposition", [
        row("direct against direct", cost["again"], cost["direct"], "direct", "ns", "the spread", None),
        row("no layer", cost["through"], direct, "direct", "ns", f"+{added['through']:.1f}, at most +5",
            added["through"] <= 5 + abs(cost["again"] - cost["direct"])),
        row("log off, fault armed elsewhere", cost["armed"], direct, "direct", "ns",
            f"+{added['armed']:.1f}, at most +25", added["armed"] <= 25 + abs(cost["again"] - cost["direct"])),
    ])


def startup(build, rounds):
    def run(env):
        started = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)
        return (time.perf_counter() - started) * 1e3

    plain = dict(os.environ)
    loaded = {**plain, "LD_PRELOAD": str(build / "sabot/lib/libsabot.so")}
    cost = interleaved(rounds * 100, [("plain", lambda: run(plain)), ("loaded", lambda: run(loaded)),
                                      ("again", lambda: run(plain))])
    spread = abs(cost["again"] - cost["plain"])
    added = cost["loaded"] - min(cost["plain"], cost["again"])
    return write("startup", [
        row("/bin/true against itself", cost["again"], cost["plain"], "plain", "ms", "the spread", None),
        row("/bin/true preloaded", cost["loaded"], cost["plain"], "plain", "ms",
            f"+{added:.3f}, at most +0.3", added <= 0.3 + spread)])


def iterations_for(size, gloo):
    per_block = 2_000_000 // max(size, 2000)
    return max(2, min(per_block, 20 if gloo else 1000))


def host(build, rounds, quick):
    sizes = [4, 64, 1024, 16384, 65536, 1 << 20, 16 << 20] if quick else \
        [4, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20]
    rows = []
    mpirun = shutil.which("mpirun")
    mpi_env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for ranks in (2, 4):
        for size in sizes:
            def options(gloo=False, n=ranks, b=size):
                return ["--ranks", str(n), "--bytes", str(b), "--iterations", str(iterations_for(b, gloo))]
            subjects = [
                ("ours", lambda: measure([build / "bench/bench_host_allreduce"] + options(),
                                         {"SABOT_ENGINE": "host"})),
                ("mpi", lambda: measure([mpirun, "--oversubscribe", "-np", str(ranks),
                                         build / "bench/bench_mpi_allreduce"] + options(), mpi_env)),
                ("gloo", lambda: measure([build / "bench/bench_gloo_allreduce"] + options(gloo=True))),
            ]
            cost = interleaved(rounds, subjects)
            name = f"allreduce {ranks} ranks {size} B"
            rows.append(row(name, cost["ours"], cost["mpi"], "OpenMPI", "us", "at least 0.5x",
                            cost["mpi"] / cost["ours"] >= 0.5))
            rows.append(row(name, cost["ours"], cost["gloo"], "Gloo", "us", "at least 3x",
                            cost["gloo"] / cost["ours"] >= 3))
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
