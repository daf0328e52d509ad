"""What Python sees for every NCCL error code on every function that a training job uses.

    python3 torch_codes.py PATH_OF_SABOT [--ranks N] [--out FILE]

A job per collective loops over the codes 1 to 8: the n-th call of the function returns code n on
every rank, so that no rank waits for another. Creation and destruction happen once in a group's
life: there it is a job per code. Rows: function × code → exception class, the line that names
the code, and whether the text names the fault. A job without an answer within its deadline is a
row too ("hangs"): that is what a training job would meet."""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

CODES = [
    "UnhandledCudaError",
    "SystemError",
    "InternalError",
    "InvalidArgument",
    "InvalidUsage",
    "RemoteError",
    "InProgress",
    "Timeout",
]
COLLECTIVES = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AlltoAll"]
LIFECYCLE = ["CommInitRankConfig", "CommDestroy"]
JOB_SECONDS = 60
JOBS_AT_ONCE = 4


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


def observe(action):
    """{"class", "text"} of what the action raised, class "none" if nothing."""
    try:
        action()
        return {"class": "none", "text": ""}
    except Exception as error:  # every class counts: that is the question
        return {"class": type(error).__name__, "text": str(error)}


def lifecycle(name):
    """What a group's life shows: its creation at the first collective, or its end."""
    import torch.distributed as dist

    created = observe(collective("AllReduce"))
    return created if name == "CommInitRankConfig" else observe(dist.destroy_process_group)


def run_rank(rank, name, ranks, meeting, queue):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(ranks),
        TORCH_NCCL_DUMP_ON_TIMEOUT="0",
        TORCH_NCCL_NONBLOCKING_TIMEOUT="15",
    )
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"file://{meeting}/store", rank=rank, world_size=ranks
    )
    if name in LIFECYCLE:
        rows = [lifecycle(name)]
    else:
        call = collective(name)
        rows = [observe(call) for _ in CODES]
    queue.put((rank, rows))
    queue.close()
    queue.join_thread()
    os._exit(0)


def job(name, ranks):
    """Runs inside `sabot run`: starts the ranks, prints rank 0's rows as one JSON line."""
    import multiprocessing
    import queue as queues

    context = multiprocessing.get_context("spawn")
    queue, meeting = context.Queue(), tempfile.mkdtemp(prefix="torch-codes-")
    processes = [
        context.Process(target=run_rank, args=(r, name, ranks, meeting, queue))
        for r in range(ranks)
    ]
    for process in processes:
        process.start()
    try:
        rows = dict(queue.get(timeout=JOB_SECONDS) for _ in processes)[0]
    except queues.Empty:
        rows = [{"class": "hangs", "text": f"no answer within {JOB_SECONDS} s"}]
    for process in processes:
        process.join(5)
        process.kill()
    print(json.dumps(rows), flush=True)
    os._exit(0)


def observed(options, name, faults):
    command = [
        options.sabot,
        "run",
        "--engine",
        "real",
        "--run-folder",
        f"runs/codes-{os.getpid()}-{abs(hash(faults))}",
        "--fault",
        faults,
        "--",
        sys.executable,
        __file__,
        options.sabot,
        "--ranks",
        str(min(2, options.ranks)),
        "--job",
        name,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_SECONDS + 60)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[{")]
    if not lines:
        raise RuntimeError(f"{name}: no rows\n{done.stdout}\n{done.stderr}")
    return json.loads(lines[-1])


def rows_of(options, name):
    if name in LIFECYCLE:
        return [observed(options, name, f"x: {name}[nth=1]=error({code})")[0] for code in CODES]
    faults = ";".join(
        f"code-{i + 1}: {name}[nth={i + 1}]=error({code})" for i, code in enumerate(CODES)
    )
    rows = observed(options, name, faults)
    return rows if len(rows) == len(CODES) else rows * len(CODES)


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
    cells = []
    with concurrent.futures.ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        functions = COLLECTIVES + LIFECYCLE
        for name, rows in zip(functions, pool.map(lambda n: rows_of(options, n), functions)):
            for code, row in zip(CODES, rows):
                cells.append(("injected by Sabot" in row["text"], row["class"], code))
                table.append(
                    f"| {name} | {code} | {row['class']} | {line_with_code(row['text'])} | "
                    f"{'yes' if cells[-1][0] else 'no'} |"
                )
    named = sum(cell[0] for cell in cells)
    raised = sum(cell[1] not in ("none", "hangs") for cell in cells)
    text = "\n".join(table) + (
        f"\n\n{len(cells)} cells: {raised} raised in Python, {named} with the fault's name.\n"
    )
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
