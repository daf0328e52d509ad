"""Measures what a proxy adds to a call of torch.distributed; writes build/bench/torch_proxy.json.

    PYTHONPATH=build/sabot/python build/venv/bin/python bench/torch_proxy.py [--quick]

One process, one rank: torch's backend "fake", which does nothing, and gloo, each bare and behind a
proxy, bare again (A against A), and behind a proxy while a fault is armed that never fires. A round
measures each once, in turn; figures are medians of the rounds. A ratio is the bare backend's time
over the proxy's.
"""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import run  # noqa: E402

NEVER = "Bcast[nth=1000000]=error(SystemError)"


def groups(store):
    """{name: C++ backend of a group}."""
    import sabot.torch
    import torch
    import torch.distributed as dist
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  (registers "fake")

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    names = {"fake": "fake", "gloo": "gloo", "sabot-fake": sabot.torch.wrap("fake"),
             "sabot-gloo": "sabot-gloo"}
    return {name: dist.new_group(backend=backend)._get_backend(torch.device("cpu"))
            for name, backend in names.items()}


def timed(backend, iterations):
    import torch
    import torch.distributed as dist

    tensors, options = [torch.zeros(4)], dist.AllreduceOptions()

    def nanoseconds():
        started = time.perf_counter()
        for _ in range(iterations):
            backend.allreduce(tensors, options).wait()
        return (time.perf_counter() - started) / iterations * 1e9

    return nanoseconds


def armed(measure):
    import sabot.faults

    def with_a_fault():
        fault = sabot.faults.Injection(NEVER).arm()
        try:
            return measure()
        finally:
            fault.withdraw()

    return with_a_fault


def rows(backends, rounds, iterations):
    for name in ("fake", "gloo"):
        bare = timed(backends[name], iterations)
        behind = timed(backends[f"sabot-{name}"], iterations)
        seen = run.interleaved(rounds, [
            ("bare", bare), ("behind", behind), ("again", bare), ("armed", armed(behind))])
        yield run.row(f"all_reduce over {name}, behind a proxy", (seen["behind"], seen["bare"]),
                      name, f"+{seen['behind'] - seen['bare']:.0f} ns")
        yield run.row(f"all_reduce over {name}, with a fault armed",
                      (seen["armed"], seen["bare"]), name,
                      f"+{seen['armed'] - seen['bare']:.0f} ns")
        yield run.row(f"all_reduce over {name}, twice", (seen["again"], seen["bare"]), name,
                      "the spread")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for tests")
    options = parser.parse_args()
    rounds, iterations = (3, 500) if options.quick else (21, 5000)
    with tempfile.TemporaryDirectory(prefix="torch-bench-") as scratch:
        table = list(rows(groups(f"{scratch}/store"), rounds, iterations))
    run.write("torch_proxy", table)


if __name__ == "__main__":
    main()
