"""Two replicas train under torchft; one loses a collective, or its life, and the other goes on.

    sabot run --fault 'AllReduce[world_rank=1,nth=6,attempt=0]=error(SystemError)' -- \\
        python3 examples/torch/replica_loss.py

Needs the package torchft. This program is the cluster: it starts torchft's lighthouse and one
process for each replica, and starts a replica that ends with an error again, once. A replica that
meets an error discards the step, makes a new quorum and repeats it; one that was started again
takes its weights from a healthy one, which waits for it unless --least lets it go on alone. At the
end each replica prints a digest of its weights; without --least they are those of a calm run.

torchft makes its process groups itself, without torch's registry of backends; the class Injected
puts the proxy "sabot:gloo" there, so that faults meet the calls that torchft makes.
"""

import argparse
import datetime
import hashlib
import os
import subprocess
import sys
import time

FEATURES, BATCH = 16, 8
POLL_S = 0.05
QUORUM_TIMEOUTS = 6


def say(line):
    sys.stdout.write(line + "\n")  # in one piece: replicas share the terminal
    sys.stdout.flush()


def process_group(backend, timeout):
    """A process group of torchft over one of Sabot's backends."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _DistributedBackendOptions
    from torchft.process_group import ProcessGroupWrapper

    class Injected(ProcessGroupWrapper):
        """Reconfigured by torchft for each quorum, as its own groups are."""

        def _create_pg(self, store, rank, world_size):
            options = _DistributedBackendOptions()
            options.store, options.timeout = store, self._timeout
            options.group_rank, options.group_size = rank, world_size
            options.group_id = f"quorum-{self._quorum_id}"
            options.global_ranks_in_group = list(range(world_size))
            made = dist.Backend._plugins[backend.upper()].creator_fn(options, None)
            group = dist.ProcessGroup(store, rank, world_size)
            group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
            group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, made)
            return group

        def getBackendName(self):
            return "torchft-sabot"

    return Injected(timeout=timeout)


def batch(step, replica):
    import torch

    generator = torch.Generator().manual_seed(1000 * step + replica)
    inputs = torch.randn(BATCH, FEATURES, generator=generator)
    return inputs, inputs.sum(1, keepdim=True)


def digest(model):
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().numpy().tobytes())
    return sha.hexdigest()[:16]


def train(options, replica, attempt):
    import torch
    import torch.distributed as dist
    import torchft

    torch.manual_seed(0)
    model = torch.nn.Linear(FEATURES, 1)
    plain = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def load(state):
        model.load_state_dict(state["model"])
        plain.load_state_dict(state["optimizer"])

    patience = datetime.timedelta(seconds=options.timeout)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        pg=process_group(options.backend, patience), load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": plain.state_dict()},
        min_replica_size=options.least, timeout=patience, connect_timeout=patience,
        # Who met an error waits here for those who learn of it from their timeout.
        quorum_timeout=QUORUM_TIMEOUTS * patience,
        rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1",
        lighthouse_addr=options.lighthouse, replica_id=f"replica-{replica}-",
        use_async_quorum=False)
    optimizer = torchft.Optimizer(manager, plain)
    while manager.current_step() < options.steps:
        optimizer.zero_grad()  # makes the quorum, and with it the number of the step
        step = manager.current_step() + 1
        inputs, expected = batch(step, replica)
        torch.nn.functional.mse_loss(model(inputs), expected).backward()
        for parameter in model.parameters():
            manager.allreduce(parameter.grad).wait()
        optimizer.step()
        verdict = "committed" if manager.current_step() >= step else "discarded"
        say(f"attempt {attempt} replica {replica}: step {step} of {options.steps} {verdict}"
            f" by {manager.num_participants()}")
    say(f"attempt {attempt} replica {replica}: done after step {options.steps},"
        f" weights {digest(model)}")
    sys.stdout.flush()
    os._exit(0)  # torchft's threads wait for each other when Python takes them down


def start(options, replica, attempt):
    environment = {**os.environ, "RANK": str(replica), "WORLD_SIZE": str(options.replicas),
                   "TORCHELASTIC_RESTART_COUNT": str(attempt), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, __file__, *sys.argv[1:], "--lighthouse", options.lighthouse]
    return subprocess.Popen(words, env=environment)


def supervise(options):
    """Starts everything, restarts what fails, and says whether all ended well."""
    os.environ.setdefault("RUST_LOG", "warn")  # of the threads below Python
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(
        bind="127.0.0.1:0", min_replicas=options.least, join_timeout_ms=1000,
        heartbeat_timeout_ms=1000)
    options.lighthouse = lighthouse.address()
    attempts = dict.fromkeys(range(options.replicas), 0)
    running = {replica: start(options, replica, 0) for replica in attempts}
    failed = []
    try:
        while running:
            time.sleep(POLL_S)
            for replica, process in list(running.items()):
                if process.poll() is None:
                    continue
                del running[replica]
                if process.returncode == 0:
                    continue
                say(f"replica {replica}: ended with {process.returncode}")
                if attempts[replica] >= options.restarts:
                    failed.append(replica)
                    continue
                attempts[replica] += 1
                running[replica] = start(options, replica, attempts[replica])
    finally:
        for process in running.values():
            process.kill()
            process.wait()
        lighthouse.shutdown()
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="sabot:gloo")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--least", type=int, help="replicas that make a step; else all")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--restarts", type=int, default=1, help="of each replica")
    parser.add_argument("--timeout", type=float, default=5, help="of a call, in seconds")
    parser.add_argument("--lighthouse", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.least = options.least or options.replicas
    if not options.lighthouse:
        return supervise(options)
    return train(options, int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"]))


if __name__ == "__main__":
    sys.exit(main())
