"""The jobs of faults.py: what an application sees of each fault on the real NCCL, from inside.

    sabot run --scenario FILE -- python3 fault_jobs.py JOB

Every job does the calls that its scenario in faults.py counts, and prints a line "ROW {…}" for
each thing that it looked at: what it was, what was seen, whether that is right. Jobs in terms of
torch.distributed take RANK and WORLD_SIZE from the environment; jobs in terms of NCCL itself have
one rank, because there the question is what our part of a call does, and they find the library by
its names as the application would."""

import ctypes
import json
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

ELEMENTS = 1024
OURS_MS = 100  # what releasing may cost beside NCCL's own work


def row(case, seen, is_right):
    rank = os.environ.get("RANK", "0")
    print("ROW " + json.dumps({"case": case, "rank": rank, "seen": seen, "right": bool(is_right)}))
    sys.stdout.flush()


def milliseconds(action):
    """The time until the action returned, and until the GPU was idle."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    action()
    returned = time.perf_counter()
    torch.cuda.synchronize()
    return (returned - began) * 1e3, (time.perf_counter() - began) * 1e3


def until(condition, seconds=10):
    deadline = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > deadline:
            return False
    return True


# --- In terms of torch.distributed ---------------------------------------------------------------


def start():
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    return rank, world


def timed(case, least, most, is_caller_held=False):
    data = torch.ones(ELEMENTS, device="cuda")
    called, done = milliseconds(lambda: dist.all_reduce(data))
    is_sum = bool((data == dist.get_world_size()).all())
    held = called if is_caller_held else done
    is_right = least <= held <= most and is_sum and (is_caller_held or called < least / 2)
    seen = f"call {called:.1f} ms, GPU {done:.1f} ms, sum {'right' if is_sum else 'wrong'}"
    row(case, seen, is_right)


def gathered(case, judge, first=1.0):
    """An all-gather out of place: judge(input before, input after, own part of the output)."""
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(ELEMENTS, device="cuda", dtype=torch.float32) + first
    before = mine.clone()
    everything = torch.full((ELEMENTS * world,), -1.0, device="cuda")
    dist.all_gather_into_tensor(everything, mine)
    torch.cuda.synchronize()
    own = everything[rank * ELEMENTS : (rank + 1) * ELEMENTS]
    seen, is_right = judge(before, mine, own)
    row(case, seen, is_right)


def changed(before, after):
    return int((before.view(torch.int32) != after.view(torch.int32)).sum())


def torch_job():
    start()
    data = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(data)  # nth 1: makes the communicator and what faults need; delayed by 1 ms
    timed("delay of 100 ms on the stream", 99, 130)
    timed("hang of 150 ms on the stream", 149, 180)
    timed("delay of 100 ms of the caller", 99, 130, is_caller_held=True)
    try:
        dist.all_reduce(data)
        row("error", "no exception", False)
    except dist.DistBackendError as error:
        is_named = 'injected by Sabot: fault "an-error"' in str(error)
        row("error", f"DistBackendError, fault named: {is_named}", is_named)
    ones = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    wrong = int(torch.isnan(ones).sum())
    row("nan into the input, in place", f"{wrong} of {ELEMENTS} are NaN", wrong == 2)

    def left_out(before, after, own):
        untouched = int((own == -1).sum())
        return f"{untouched} of {ELEMENTS} elements left alone", untouched == ELEMENTS

    def one_input(before, after, own):
        wrong, kept = changed(before, own), changed(before, after)
        return f"{wrong} gathered elements wrong, {kept} of the input", (wrong, kept) == (1, 0)

    def three_outputs(before, after, own):
        wrong, zeros = changed(before, own), int((own == 0).sum())
        return f"{wrong} gathered elements wrong, {zeros} are 0", (wrong, zeros) == (3, 3)

    def two_stale(before, after, own):
        wrong, old = changed(before, own), int((own == -1).sum())
        return f"{wrong} gathered elements wrong, {old} are the old ones", (wrong, old) == (2, 2)

    def scaled(before, after, own):
        at = (before != own).nonzero()
        is_right = len(at) == 4 and bool((own[at] == before[at] * 2.5).all())
        return f"{len(at)} gathered elements wrong, by 2.5: {is_right}", is_right

    gathered("bit-flip in the input", one_input)
    gathered("zero in the output", three_outputs)
    gathered("stale output", two_stale)
    gathered("scale in the output", scaled)
    if dist.get_world_size() == 1:
        gathered("skip", left_out)
    graph_cases()
    dist.destroy_process_group()


def graph_cases():
    data = torch.ones(ELEMENTS, device="cuda")
    mine = torch.ones(ELEMENTS, device="cuda")
    own = torch.zeros(ELEMENTS * dist.get_world_size(), device="cuda")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="global"):
            dist.all_reduce(data)  # captured, nth 1: delayed by 50 ms
            dist.all_gather_into_tensor(own, mine)  # captured, nth 1: one bit of the input
    except RuntimeError as error:
        row("capture into a graph", str(error).splitlines()[0], False)
        return
    times, wrong, kept = [], [], []
    for value in (3.0, 4.0, 5.0):
        mine.fill_(value)
        _, done = milliseconds(graph.replay)
        times.append(done)
        wrong.append(int((own[:ELEMENTS] != value).sum()))
        kept.append(int((mine != value).sum()))
    is_held = all(49 <= took <= 80 for took in times)
    row("delay of 50 ms in a graph", "replays " + ", ".join(f"{t:.1f} ms" for t in times), is_held)
    is_right = wrong == [1, 1, 1] and kept == [0, 0, 0]
    row("bit-flip in a graph", f"wrong at each replay {wrong}, in the input {kept}", is_right)


def torch_abort_job():
    """A hang, an abort by PyTorch, and a new group in the same process."""
    start()
    data = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    work = dist.all_reduce(data, async_op=True)  # nth 2: hangs
    is_held = not until(work.is_completed, 0.3)
    group = dist.distributed_c10d._get_default_group()
    began = time.perf_counter()
    group._get_backend(torch.device("cuda")).abort()
    took = (time.perf_counter() - began) * 1e3
    torch.cuda.synchronize()
    row("abort of a held stream by PyTorch", f"held {is_held}, abort {took:.0f} ms", is_held)
    other = dist.new_group(ranks=list(range(dist.get_world_size())))
    fresh = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(fresh, group=other)
    torch.cuda.synchronize()
    is_sum = bool((fresh == dist.get_world_size()).all())
    row("a new group after the abort", f"sum {'right' if is_sum else 'wrong'}", is_sum)
    os._exit(0)  # its group was aborted: there is nothing to destroy


def torch_async_error_job():
    """PyTorch's watchdog ends the process; faults.py judges how."""
    start()
    data = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    dist.all_reduce(data)  # nth 2
    print("CALLED", time.time(), flush=True)
    torch.cuda.synchronize()


# --- In terms of NCCL itself ---------------------------------------------------------------------


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Nccl:
    """One communicator of one rank on a stream of its own."""

    FLOAT, SUM = 7, 0

    def __init__(self):
        self.api = ctypes.CDLL(None)
        self.stream = torch.cuda.Stream()
        self.comm = ctypes.c_void_p()
        unique_id = UniqueId()
        self.check(self.api.ncclGetUniqueId(ctypes.byref(unique_id)))
        self.check(self.api.ncclCommInitRank(ctypes.byref(self.comm), 1, unique_id, 0))
        self.source = torch.arange(ELEMENTS, device="cuda", dtype=torch.float32) + 1
        self.target = torch.zeros(ELEMENTS, device="cuda")
        torch.cuda.synchronize()

    @staticmethod
    def check(code):
        if code != 0:
            raise RuntimeError(f"NCCL returned {code}")

    def all_reduce(self):
        return self.api.ncclAllReduce(
            ctypes.c_void_p(self.source.data_ptr()),
            ctypes.c_void_p(self.target.data_ptr()),
            ctypes.c_size_t(ELEMENTS),
            self.FLOAT,
            self.SUM,
            self.comm,
            ctypes.c_void_p(self.stream.cuda_stream),
        )

    def async_error(self):
        code = ctypes.c_int(-1)
        self.check(self.api.ncclCommGetAsyncError(self.comm, ctypes.byref(code)))
        return code.value

    def timed(self, name):
        more = [0] if name == "ncclCommRevoke" else []
        began = time.perf_counter()
        code = getattr(self.api, name)(self.comm, *more)
        return code, (time.perf_counter() - began) * 1e3


def ended(name):
    """How long ending takes with a stream held by a fault, and without."""
    plain = Nccl()
    plain.check(plain.all_reduce())
    torch.cuda.synchronize()
    _, without = plain.timed(name)
    held = Nccl()
    held.check(held.all_reduce())
    is_held = not until(held.stream.query, 0.2)
    code, took = held.timed(name)
    is_free = until(held.stream.query, 1)
    seen = f"held {is_held}, returned {code} in {took:.1f} ms, without a hang {without:.1f} ms"
    row(f"{name} of a held stream", seen, is_held and is_free and took - without < OURS_MS)


def nccl_job():
    for name in ("ncclCommAbort", "ncclCommDestroy", "ncclCommFinalize", "ncclCommRevoke"):
        ended(name)
    held_caller()
    async_error()
    group()
    caller_state()


def held_caller():
    """A caller that is held, and an abort in another thread (B18)."""
    nccl = Nccl()
    codes = []
    caller = threading.Thread(target=lambda: codes.append(nccl.all_reduce()))
    caller.start()
    time.sleep(0.2)
    is_held = caller.is_alive()
    code, took = nccl.timed("ncclCommAbort")
    caller.join(5)
    seen = f"held {is_held}, abort {code} in {took:.1f} ms, the held call returned {codes}"
    row("abort of a held caller", seen, is_held and code == 0 and codes == [3])


def async_error():
    nccl = Nccl()
    nccl.check(nccl.all_reduce())
    torch.cuda.synchronize()
    code = nccl.all_reduce()  # nth 2
    is_stuck = not until(nccl.stream.query, 0.2)
    reported, later = nccl.async_error(), nccl.all_reduce()
    aborted, took = nccl.timed("ncclCommAbort")
    is_free = until(nccl.stream.query, 1)
    seen = (
        f"call {code}, async error {reported}, next call {later}, stuck {is_stuck}, "
        f"abort {aborted} in {took:.1f} ms, free {is_free}"
    )
    is_right = (code, reported, later, aborted) == (0, 6, 6, 0) and is_stuck and is_free
    row("async_error", seen, is_right)


def group():
    nccl = Nccl()
    nccl.check(nccl.api.ncclGroupStart())
    nccl.check(nccl.all_reduce())  # nth 1: delayed
    nccl.check(nccl.all_reduce())  # nth 2: its output is corrupted once the group has run
    began = time.perf_counter()
    nccl.check(nccl.api.ncclGroupEnd())
    torch.cuda.synchronize()
    took = (time.perf_counter() - began) * 1e3
    wrong = changed(nccl.source, nccl.target)
    row("in a group", f"{wrong} outputs wrong, GPU {took:.1f} ms", wrong == 1 and 79 < took < 120)
    code = nccl.all_reduce()  # nth 3
    row("exhaust allocation", f"returned {code}", code == 1)


def caller_state():
    """A call that is left out and delayed: on the stream there is only what Sabot put there."""
    nccl = Nccl()
    path = next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart.so" in line)
    runtime = ctypes.CDLL(path)
    context = ctypes.c_void_p()
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuCtxGetCurrent(ctypes.byref(context))
    runtime.cudaSetDevice(4711)  # the application's own error, which it has not looked at yet
    nccl.check(nccl.all_reduce())  # skip and delay
    error = runtime.cudaGetLastError()
    after = ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(after))
    is_held = not until(nccl.stream.query, 0.05)
    is_same = context.value == after.value
    seen = f"last error {error}, context the same: {is_same}, stream held: {is_held}"
    row("the caller's last error and context", seen, error == 101 and is_same and is_held)


def nccl_control_job():
    """faults.py releases the hang by `sabot ctl` when it reads HELD."""
    nccl = Nccl()
    nccl.check(nccl.all_reduce())
    is_held = not until(nccl.stream.query, 0.2)
    print("HELD", flush=True)
    sys.stdin.readline()  # released
    told = time.perf_counter()
    is_free = until(nccl.stream.query, 5)
    took = (time.perf_counter() - told) * 1e3
    seen = f"held {is_held}, free {took:.1f} ms after the command returned"
    row("sabot ctl release", seen, is_held and is_free and took < OURS_MS)


def nccl_crash_job():
    nccl = Nccl()
    nccl.check(nccl.all_reduce())
    print("ALIVE after the crash", flush=True)


JOBS = {
    "torch": torch_job,
    "torch-abort": torch_abort_job,
    "torch-async-error": torch_async_error_job,
    "nccl": nccl_job,
    "nccl-control": nccl_control_job,
    "nccl-crash": nccl_crash_job,
}

if __name__ == "__main__":
    JOBS[sys.argv[1]]()
