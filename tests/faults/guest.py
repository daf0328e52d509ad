"""The ranks of a small job that does what it is told and says what it saw, for matrix.py.

    guest.py --library PATH --ranks N --folder F --patience S [--rank R] [--short] STEP…

Without --rank it runs all ranks as threads of one process, else that rank. Steps are the same on
every rank: a collective's name, `init`, `finalize`, `destroy`, `abort`, `group:X,Y`. Each prints
one JSON line: what it returned, whether its data is right, how long it took. A step that does not
return within the patience is told as waiting; its communicator is then aborted from another
thread, as a watchdog would. After the steps all ranks meet, end what is left, and those that live
make a new communicator and use it. ctypes lets go of Python's lock in every call.
"""

import argparse
import ctypes
import json
import os
import pathlib
import signal
import sys
import threading
import time

COUNT = 1024
FLOAT, SUM, SUCCESS, IN_PROGRESS = 7, 0, 0, 7
POLL_S, MEETING_S = 0.005, 30
PR_SET_PDEATHSIG = 1
# Where ranks meet, in order; who is at a later one has passed the earlier.
STAGES = ["work", "seen", "over"]
NAMES = ["ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
         "ncclInvalidArgument", "ncclInvalidUsage", "ncclRemoteError", "ncclInProgress",
         "ncclTimeout"]
PRINTING = threading.Lock()


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def say(**words):
    with PRINTING:
        print(json.dumps(words), flush=True)


class Rank:
    def __init__(self, library, options, rank):
        self.nccl, self.rank, self.ranks = library, rank, options.ranks
        self.folder, self.patience = pathlib.Path(options.folder), options.patience
        self.lives_on = not options.short
        self.comm, self.had_trouble, self.buffers = ctypes.c_void_p(), False, []

    # -- what a step does: a function without arguments that returns a result and the data's verdict

    def exchange_id(self, name, by):
        """The bytes of an id that one rank made."""
        path = self.folder / f"id-{name}"
        if self.rank == by:
            made = Id()
            result = self.nccl.ncclGetUniqueId(ctypes.byref(made))
            if result != SUCCESS:
                return result, made
            temporary = path.with_suffix(".new")
            temporary.write_bytes(bytes(made))
            temporary.rename(path)
            return SUCCESS, made
        until = time.monotonic() + 30
        while not path.exists():
            if time.monotonic() > until:
                raise TimeoutError(f"rank {by} left no id")
            time.sleep(POLL_S)
        return SUCCESS, Id.from_buffer_copy(path.read_bytes())

    def init(self, name="0", members=None):
        members = members if members is not None else list(range(self.ranks))
        result, identity = self.exchange_id(name, members[0])
        self.members = members
        if result == SUCCESS:
            result = self.nccl.ncclCommInitRank(
                ctypes.byref(self.comm), len(members), identity, members.index(self.rank))
        if result != SUCCESS:
            self.comm = ctypes.c_void_p()
        return result, None

    def ending(self, function):
        result = getattr(self.nccl, "ncclComm" + function)(self.comm)
        if function != "Finalize":
            self.comm = ctypes.c_void_p()
        return result, None

    def group(self, names):
        self.nccl.ncclGroupStart()
        checks, early = [], SUCCESS
        for name in names:
            result, check = self.collective(name)
            checks.append(check)
            early = early or result
        result = self.nccl.ncclGroupEnd()
        return early or result, all(check() for check in checks)

    def collective(self, name):
        """Makes the call; what it returns, and a function that looks at the data."""
        ranks, me = len(self.members), self.members.index(self.rank)
        values = [float(member + 1) for member in self.members]
        own, total = values[me], sum(values)
        everybody = [v for v in values for _ in range(COUNT)]
        parts = {  # input, output, what the output has to be (None: nothing), arguments
            "AllReduce": ([own] * COUNT, COUNT, [total] * COUNT, (SUM,)),
            "Reduce": ([own] * COUNT, COUNT, [total] * COUNT if me == 0 else None, (SUM, 0)),
            "Broadcast": ([own] * COUNT, COUNT, [values[0]] * COUNT, (0,)),
            "AllGather": ([own] * COUNT, COUNT * ranks, everybody, ()),
            "ReduceScatter": ([own] * COUNT * ranks, COUNT, [total] * COUNT, (SUM,)),
            "AlltoAll": ([own] * COUNT * ranks, COUNT * ranks, everybody, ()),
            "Gather": ([own] * COUNT, COUNT * ranks, everybody if me == 0 else None, (0,)),
            "Scatter": ([own] * COUNT * ranks, COUNT, [values[0]] * COUNT, (0,)),
        }
        if name == "SendRecv":
            return self.send_and_receive(ranks, me, values)
        values_in, length, expected, arguments = parts[name]
        given = (ctypes.c_float * len(values_in))(*values_in)
        taken = (ctypes.c_float * length)(*([-1.0] * length))
        self.buffers.append((given, taken))
        result = getattr(self.nccl, "nccl" + name)(
            given, taken, ctypes.c_size_t(COUNT), FLOAT, *arguments, self.comm, None)
        return result, lambda: expected is None or list(taken) == expected

    def send_and_receive(self, ranks, me, values):
        given = (ctypes.c_float * COUNT)(*([values[me]] * COUNT))
        taken = (ctypes.c_float * COUNT)()
        self.buffers.append((given, taken))
        before, after = (me - 1) % ranks, (me + 1) % ranks
        self.nccl.ncclGroupStart()
        size = ctypes.c_size_t(COUNT)
        results = [self.nccl.ncclSend(given, size, FLOAT, after, self.comm, None),
                   self.nccl.ncclRecv(taken, size, FLOAT, before, self.comm, None)]
        results.append(self.nccl.ncclGroupEnd())
        expected = [values[before]] * COUNT
        return next((r for r in results if r != SUCCESS), SUCCESS), lambda: list(taken) == expected

    def perform(self, step):
        if step == "init":
            return self.init()
        if step in ("finalize", "destroy", "abort"):
            return self.ending(step.capitalize())
        if step.startswith("group:"):
            return self.group(step[len("group:"):].split(","))
        result, check = self.collective(step)
        return result, check() if result == SUCCESS else None

    # -- how a step is watched

    def watch(self, step, ended, began):
        """Tells of a step that does not end, and aborts its communicator."""
        if ended.wait(self.patience):
            return
        say(rank=self.rank, step=step, waits=True, ms=round((time.monotonic() - began) * 1e3))
        self.had_trouble = True
        self.meet("seen")
        if not self.comm or step in ("destroy", "abort"):
            if not ended.wait(self.patience):
                say(rank=self.rank, stuck=step)
                os._exit(17)  # nothing can be aborted
            return
        at = time.monotonic()
        result = self.nccl.ncclCommAbort(self.comm)
        say(rank=self.rank, aborted=NAMES[result], ms=round((time.monotonic() - at) * 1e3))
        self.comm = ctypes.c_void_p()
        if not ended.wait(5):
            say(rank=self.rank, stuck=step)
            os._exit(17)

    def asynchronous_error(self):
        code = ctypes.c_int(0)
        if not self.comm or self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(code)):
            return None
        return None if code.value in (SUCCESS, IN_PROGRESS) else NAMES[code.value]

    def step(self, step):
        """Whether the job goes on."""
        ended, began = threading.Event(), time.monotonic()
        watcher = threading.Thread(target=self.watch, args=(step, ended, began))
        watcher.start()
        result, data = self.perform(step)
        ms = round((time.monotonic() - began) * 1e3)
        ended.set()
        watcher.join()
        failed = result != SUCCESS
        text = self.nccl.ncclGetLastError(None).decode(errors="replace") if failed else ""
        reported = self.asynchronous_error()
        say(rank=self.rank, step=step, result=NAMES[result], data=data, ms=ms, text=text,
            reported=reported)
        self.had_trouble = self.had_trouble or failed or reported is not None
        return not self.had_trouble

    # -- the job

    def meet(self, where):
        """Leaves a mark and waits for those of the others, not for the dead; who came."""
        (self.folder / f"{where}-{self.rank}").touch()
        enough = STAGES[STAGES.index(where):]
        until = time.monotonic() + MEETING_S
        while True:
            came = [r for r in range(self.ranks)
                    if any((self.folder / f"{stage}-{r}").exists() for stage in enough)]
            missing = [r for r in range(self.ranks) if r not in came and not self.is_gone(r)]
            if not missing or time.monotonic() > until:
                return came
            time.sleep(POLL_S)

    def is_gone(self, rank):
        try:
            pid = (self.folder / f"pid-{rank}").read_text()
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return (self.folder / f"pid-{rank}").exists()
        return stat.rsplit(")", 1)[1].split()[0] in "ZX"

    def run(self, steps):
        partial = self.folder / f"pid-{self.rank}.new"
        partial.write_text(str(os.getpid()))
        partial.rename(self.folder / f"pid-{self.rank}")
        for step in steps:
            if step in ("finalize", "destroy", "abort"):
                self.meet("work")  # or an early end would be a fault of ours
            if not self.step(step):
                break
        self.meet("seen")
        if self.comm:
            at = time.monotonic()
            result = self.nccl.ncclCommAbort(self.comm)
            say(rank=self.rank, aborted=NAMES[result], ms=round((time.monotonic() - at) * 1e3))
            self.comm = ctypes.c_void_p()
        alive = self.meet("over")
        if self.lives_on:
            self.live_on(alive)

    def live_on(self, alive):
        """A new communicator of those that are left, used and destroyed."""
        results = [self.init("again", alive)[0]]
        if results[0] == SUCCESS:
            result, check = self.collective("AllReduce")
            results += [result, SUCCESS if result == SUCCESS and check() else 99]
            results.append(self.ending("Destroy")[0])
        say(rank=self.rank, again=all(r == SUCCESS for r in results), results=results)


def end_with_parent():
    """A rank that hangs must not outlive the runner."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main():
    end_with_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--patience", type=float, required=True)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--short", action="store_true", help="no new communicator at the end")
    parser.add_argument("steps", nargs="+")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library, mode=ctypes.RTLD_GLOBAL)
    library.ncclGetLastError.restype = ctypes.c_char_p
    library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
    own = range(options.ranks) if options.rank is None else [options.rank]
    ranks = [Rank(library, options, rank) for rank in own]
    threads = [threading.Thread(target=rank.run, args=(options.steps,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
