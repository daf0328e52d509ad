"""What Python sees for every NCCL error code on every function that a training job uses.

    python3 torch_codes.py PATH_OF_SABOT [--ranks N] [--out FILE]

One job per function loops over the codes 1 to 8: the n-th call of the function returns code n on every rank,
so that no rank waits for another. Rows: function × code → exception class and the line that names the code.
The last line counts the cells where the injected fault reached Python with its text.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

CODES = ["UnhandledCudaError", "SystemError", "InternalError", "InvalidArgument", "InvalidUsage", "RemoteError",
         "InProgress", "Timeout"]
FUNCTIONS = {
    "AllReduce": "all_reduce", "AllGather": "all_gather_into_tensor", "ReduceScatter": "reduce_scatter_tensor",
    "Broadcast": "broadcast", "AlltoAll": "all_to_all_single", "CommInitRankConfig": "init",
    "CommDestroy": "destroy",
}
LIFECYCLE = ("CommInitRankConfig", "CommDestroy")  # once in a group's life


def collective(name):
    import torch
    import torch.distributed as dist

    world = dist.get_world_size()
    one, many = torch.ones(256, device="cuda"), torch.ones(256 * world, device="cuda")
    calls = {
        "AllReduce": lambda: dist.all_reduce(one),
        "AllGather": lambda: dist.all_gather_into_tensor(many, one),
        "ReduceScatter": lambda: dist.reduce_scatter_tensor(one, many),
        "Broadcast": lambda: dist.broadcast(one, 0),
        "AlltoAll": lambda: dist.all_to_all_single(many, torch.ones_like(many)),
    }
    return calls[name]


def start_group(rank, ranks, port):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)


def observe(action):
    """{"class", "text"} of what the action raised, class "none" if nothing."""
    try:
        action()
        return {"class": "none", "text": ""}
    except Exception as error:  # every class counts: that is the question
        return {"class": type(error).__name__, "text": str(error)}


def lifecycle(name, rank, ranks, port):
    """init or destroy: a process group per code, as both happen once in a group's life."""
    import torch.distributed as dist

    start_group(rank, ranks, port)
    seen = observe(collective("AllReduce")) if name == "CommInitRankConfig" else None
    ended = observe(dist.destroy_process_group)
    return seen if name == "CommInitRankConfig" else ended


def run_rank(rank, name, ranks, port, queue):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                      TORCH_NCCL_DUMP_ON_TIMEOUT="0")
    rows = []
    if name in LIFECYCLE:
        rows = [lifecycle(name, rank, ranks, port + code) for code in range(len(CODES))]
    else:
        start_group(rank, ranks, port)
        call = collective(name)
        rows = [observe(call) for _ in CODES]
    queue.put((rank, rows))
    queue.close()
    queue.join_thread()
    os._exit(0)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def job(name, ranks):
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    queue, port = context.Queue(), free_port()
    processes = [context.Process(target=run_rank, args=(r, name, ranks, port, queue)) for r in range(ranks)]
    for process in processes:
        process.start()
    rows = dict(queue.get(timeout=90) for _ in processes)
    for process in processes:
        process.join(30)
    print(json.dumps(rows[0]))


def fault_line(name):
    return ";".join(f"{name.lower()}-{i + 1}: {name}[nth={i + 1}]=error({code})" for i, code in enumerate(CODES))


def line_with_code(text):
    for line in text.splitlines():
        if "nccl" in line and ":" in line and not line.startswith("NCCL error in"):
            return line.strip()[:90]
    return text.splitlines()[0][:90] if text else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sabot")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--out", default="")
    parser.add_argument("--job", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        return job(options.job, options.ranks)
    table = ["| function | code | exception | text | names the fault |", "|---|---|---|---|---|"]
    reached = cells = 0
    for name in FUNCTIONS:
        command = [options.sabot, "run", "--engine", "real", "--fault", fault_line(name), "--", sys.executable,
                   __file__, options.sabot, "--ranks", str(min(2, options.ranks)), "--job", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        except subprocess.TimeoutExpired as late:
            print(f"{name}: no answer within {late.timeout} s\n{late.stdout}\n{late.stderr}")
            return 1
        lines = [line for line in done.stdout.splitlines() if line.startswith("[{")]
        if not lines:
            print(done.stdout, done.stderr, sep="\n")
            return 1
        for code, row in zip(CODES, json.loads(lines[-1])):
            named = "injected by Sabot" in row["text"]
            cells += 1
            reached += named
            table.append(f"| {name} | {code} | {row['class']} | {line_with_code(row['text'])} | "
                         f"{'yes' if named else 'no'} |")
    text = "\n".join(table) + f"\n\n{reached} of {cells} injected errors reached Python with the fault's text.\n"
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
