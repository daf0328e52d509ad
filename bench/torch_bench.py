"""Measures torch.distributed over Sabot against gloo, and writes build/bench/torch.json.

    PYTHONPATH=build/sabot/python build/venv/bin/python bench/torch_bench.py [--quick]

All subjects live in the same processes, and a round measures each once, in turn: ours from Python,
gloo from Python, gloo again (A against A), ours and gloo as C++ backends, a backend that does
nothing, and NCCL's API of the same library. Figures are medians of the rounds, on rank 0. Ratios
are gloo's time over ours; a bar closer than gloo's own spread counts as met within it.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import run  # noqa: E402

SIZES = [4, 16, 64, 256, 1024, 4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
SMALL_MAX = 65536
JOB_SECONDS = 900
DDP_STEPS = 20


def extension():
    """torch_loops.cpp for this torch; compiled once into build/bench."""
    import sabot
    from torch.utils import cpp_extension

    folder = run.ROOT / "build" / "bench" / "torch_loops"
    folder.mkdir(parents=True, exist_ok=True)
    return cpp_extension.load(
        "torch_loops", [str(run.ROOT / "bench" / "torch_loops.cpp")], build_directory=str(folder),
        extra_cflags=["-O2", "-std=c++20", "-DSABOT_NCCL_WITHOUT_CUDA"],
        extra_include_paths=[str(sabot.include_folder())])


class Subjects:
    """One rank's groups over each backend, and what can be timed on them."""

    def __init__(self, rank, ranks, store):
        import sabot
        import torch
        import torch.distributed as dist

        self.rank, self.torch, self.dist, self.loops = rank, torch, dist, extension()
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
        dist.Backend.register_backend(
            "empty", lambda _, rank, size, timeout: self.loops.empty(rank, size), devices=["cpu"])
        self.groups = {name: dist.new_group(backend=name) for name in ("sabot", "gloo", "empty")}
        path = str(sabot.standin_library())
        identity = [self.loops.Direct.identity(path) if rank == 0 else None]
        dist.broadcast_object_list(identity)
        self.direct = self.loops.Direct(path, identity[0], rank, ranks)

    def python_us(self, name, tensor, iterations):
        group, all_reduce = self.groups[name], self.dist.all_reduce
        self.torch.zeros(1)
        started = time.perf_counter()
        for _ in range(iterations):
            all_reduce(tensor, group=group)
        return (time.perf_counter() - started) / iterations * 1e6

    def backend_us(self, name, tensor, iterations):
        backend = self.groups[name]._get_backend(self.torch.device("cpu"))
        return self.loops.backend_seconds(backend, tensor, iterations) * 1e6

    def direct_us(self, tensor, iterations):
        return self.direct.seconds(tensor, iterations) * 1e6

    def table(self):
        """(what, how to time it, whether it is gloo's: slower, so fewer iterations)"""
        return [
            ("python sabot", lambda t, n: self.python_us("sabot", t, n), False),
            ("python gloo", lambda t, n: self.python_us("gloo", t, n), True),
            ("c++ sabot", lambda t, n: self.backend_us("sabot", t, n), False),
            ("c++ gloo", lambda t, n: self.backend_us("gloo", t, n), True),
            ("python gloo again", lambda t, n: self.python_us("gloo", t, n), True),
            ("c++ gloo again", lambda t, n: self.backend_us("gloo", t, n), True),
            ("c api", self.direct_us, False),
            ("python empty", lambda t, n: self.python_us("empty", t, n), False),
        ]


def iterations_for(size, is_gloo):
    most = 50 if is_gloo else 400
    return max(2, min(most, (32 << 20) // max(size, 1)))


def measure_rank(rank, ranks, store, out, options):
    """Runs in each rank; rank 0 writes {size: {what: median}} and the DDP steps."""
    subjects = Subjects(rank, ranks, store)
    figures = {}
    for size in options["sizes"]:
        tensor = subjects.torch.zeros(size // 4)
        seen = {}
        for round_number in range(options["rounds"] + 1):  # the first one warms up
            for what, timed, is_gloo in subjects.table():
                us = timed(tensor, iterations_for(size, is_gloo))
                if round_number:
                    seen.setdefault(what, []).append(us)
        figures[size] = {what: statistics.median(values) for what, values in seen.items()}
    steps = ddp_steps(subjects, options["rounds"])
    if rank == 0:
        pathlib.Path(out).write_text(json.dumps({"sizes": figures, "ddp": steps}))
    subjects.dist.barrier()
    os._exit(0)  # what ends and how fast is not the question here


def ddp_steps(subjects, rounds):
    """Milliseconds of one training step of a small MLP: alone, over ours and over gloo."""
    torch = subjects.torch
    layers = [torch.nn.Linear(256, 256), torch.nn.ReLU()] * 3 + [torch.nn.Linear(256, 16)]
    inputs = torch.randn(32, 256)
    models = {"alone": torch.nn.Sequential(*layers)}
    for name in ("sabot", "gloo"):
        models[name] = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*layers), process_group=subjects.groups[name])
    seen = {}
    for round_number in range(rounds + 1):
        for name, model in models.items():
            subjects.dist.barrier(group=subjects.groups["sabot"])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            started = time.perf_counter()
            for _ in range(DDP_STEPS):
                optimizer.zero_grad()
                model(inputs).square().mean().backward()
                optimizer.step()
            if round_number:
                seen.setdefault(name, []).append((time.perf_counter() - started) / DDP_STEPS * 1e3)
    return {name: statistics.median(values) for name, values in seen.items()}


def job(ranks, options):
    """All subjects on this many ranks."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="torch-bench-") as scratch:
        out, store = f"{scratch}/figures.json", f"{scratch}/store"
        processes = [context.Process(target=measure_rank, args=(r, ranks, store, out, options))
                     for r in range(ranks)]
        for process in processes:
            process.start()
        deadline = time.monotonic() + JOB_SECONDS
        for process in processes:
            process.join(max(1, deadline - time.monotonic()))
        statuses = [process.exitcode for process in processes]
        for process in processes:
            process.kill()
        if any(status != 0 for status in statuses):
            raise RuntimeError(f"the job of {ranks} ranks failed: exit codes {statuses}")
        return json.loads(pathlib.Path(out).read_text())


def at_least(ratio, least, spread):
    return ratio * (1 + spread) >= least


def rows_of_size(ranks, size, seen):
    for level, small in (("python", 8), ("c++", 20)):
        ours, gloo = seen[f"{level} sabot"], seen[f"{level} gloo"]
        spread = abs(seen[f"{level} gloo again"] - gloo) / gloo
        least = small if ranks == 2 and size <= SMALL_MAX else 3
        met = at_least(gloo / ours, least, spread)
        yield run.row(f"{level} all_reduce, {ranks} ranks, {size} B", (ours, gloo), "gloo",
                      f"at least {least}x", met, "us")


def rows_of_job(ranks, figures):
    sizes = {int(size): seen for size, seen in figures["sizes"].items()}
    for size, seen in sizes.items():
        yield from rows_of_size(ranks, size, seen)
    for level in ("python", "c++"):
        pairs = [(seen[f"{level} gloo again"], seen[f"{level} gloo"]) for seen in sizes.values()]
        worst = max(pairs, key=lambda pair: abs(pair[0] - pair[1]) / pair[1])
        yield run.row(f"{level} gloo twice, {ranks} ranks, widest", worst, "gloo", "the spread",
                      unit="us")
    smallest = sizes[min(sizes)]
    added = smallest["c++ sabot"] - smallest["c api"]
    is_bar = ranks == 2  # more ranks than cores measure the scheduler
    yield run.row(f"c++ backend over ncclAllReduce, {ranks} ranks",
                  (smallest["c++ sabot"], smallest["c api"]), "the C API",
                  f"+{added:.2f}" + (", at most +3" if is_bar else ""),
                  added <= 3 if is_bar else None, "us")
    yield run.row(f"python over an empty backend, {ranks} ranks",
                  (smallest["python sabot"], smallest["python empty"]), "empty", "the floor",
                  unit="us")
    steps = figures["ddp"]
    shares = {name: (steps[name] - steps["alone"]) / steps[name] for name in ("sabot", "gloo")}
    yield run.row(f"DDP step of an MLP, {ranks} ranks", (steps["sabot"], steps["gloo"]), "gloo",
                  f"comm {shares['sabot']:.0%}, gloo {shares['gloo']:.0%}", unit="ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--ranks", default="2,4")
    options = parser.parse_args()
    plan = {"sizes": SIZES[::4] if options.quick else SIZES, "rounds": 3 if options.quick else 9}
    extension()  # compiled before the ranks ask for it
    rows = []
    for ranks in [int(text) for text in options.ranks.split(",")]:
        rows += rows_of_job(ranks, job(ranks, plan))
    print("\nall bars met" if run.write("torch", rows) else "\nsome bars were missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
