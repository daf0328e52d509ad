"""NCCL's own behaviour over Sabot's network plugin: two ranks on one GPU.

    python3 tools/gpu/net_plugin.py PATH_OF_SABOT   all parts: clean, beside NCCL's own sockets, and
                                                   each link fault through `sabot run`
    python3 tools/gpu/net_plugin.py --job FOLDER    the job: starts two ranks and waits for them

Ranks of one GPU are told apart by NCCL_HOSTID. Each rank does checked all-reduces until they are
done, an error is reported, or time is up; then it says what it saw and aborts. The first part of a
row is what rank 0 saw, the second what rank 1 saw.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROUNDS = 12
COUNT = 1 << 20
PATIENCE_S = 6.0
CODES = ["Success", "UnhandledCudaError", "SystemError", "InternalError", "InvalidArgument",
         "InvalidUsage", "RemoteError", "InProgress", "Timeout"]
FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def name_of(code):
    return CODES[code] if 0 <= code < len(CODES) else str(code)


def vendor_path():
    import nvidia.nccl  # pylint: disable=import-outside-toplevel

    return str(pathlib.Path(list(nvidia.nccl.__path__)[0]) / "lib" / "libnccl.so.2")


def library():
    import torch  # pylint: disable=import-outside-toplevel,unused-import

    # Through the program's own names, which a preloaded Sabot answers.
    nccl = ctypes.CDLL(None if "libsabot" in os.environ.get("LD_PRELOAD", "") else vendor_path())
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    for name in ("ncclCommAbort", "ncclCommDestroy", "ncclGetLastError"):
        getattr(nccl, name).argtypes = [ctypes.c_void_p]
    nccl.ncclCommGetAsyncError.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    return nccl


def exchange_id(nccl, rank, folder):
    path = folder / "id"
    unique = UniqueId()
    if rank == 0:
        nccl.ncclGetUniqueId(ctypes.byref(unique))
        (folder / "id.tmp").write_bytes(bytes(unique))
        (folder / "id.tmp").rename(path)
    while not path.exists():
        time.sleep(0.01)
    return UniqueId.from_buffer_copy(path.read_bytes())


class Rank:
    def __init__(self, rank, folder):
        import torch  # pylint: disable=import-outside-toplevel

        self.torch, self.rank, self.seen = torch, rank, {"rank": rank, "rounds": 0, "wrong": 0}
        torch.cuda.set_device(0)
        self.data = torch.ones(COUNT, device="cuda")
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        self.nccl = library()
        unique = exchange_id(self.nccl, rank, folder)
        self.comm = ctypes.c_void_p()
        code = self.nccl.ncclCommInitRank(ctypes.byref(self.comm), 2, unique, rank)
        self.seen["init"] = name_of(code)

    def async_error(self):
        code = ctypes.c_int(0)
        self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(code))
        return code.value

    def reduce(self, count):
        pointer = self.data.data_ptr()
        return self.nccl.ncclAllReduce(pointer, pointer, count, FLOAT32, SUM, self.comm,
                                       self.stream.cuda_stream)

    def wait(self, since):
        """Whether the stream is done; else what ended the wait is in self.seen."""
        while not self.stream.query():
            code = self.async_error()
            if code != 0:
                self.seen.update(async_error=name_of(code), async_ms=passed_ms(since),
                                 last_error=self.last_error())
                time.sleep(1.0)
                self.seen["stream_after_error"] = "done" if self.stream.query() else "stuck"
                return False
            if time.monotonic() - since > PATIENCE_S:
                self.seen["hangs"] = True
                return False
        return True

    def last_error(self):
        return (self.nccl.ncclGetLastError(None) or b"").decode(errors="replace")

    def run(self):
        for number in range(1, ROUNDS + 1):
            with self.torch.cuda.stream(self.stream):
                self.data.fill_(self.rank + number)
            since = time.monotonic()
            code = self.reduce(COUNT)
            if code != 0:
                self.seen.update(call=name_of(code), last_error=self.last_error())
                break
            if not self.wait(since):
                break
            self.seen["rounds"] = number
            self.seen["wrong"] += int(not bool((self.data == 2 * number + 1).all()))
            self.seen.setdefault("ms", []).append(round(passed_ms(since), 1))
        if self.seen["rounds"] == ROUNDS:
            self.seen["destroy"] = name_of(self.nccl.ncclCommDestroy(self.comm))
            return
        self.seen["next_call"] = name_of(self.reduce(COUNT))
        since = time.monotonic()
        self.seen["abort"] = name_of(self.nccl.ncclCommAbort(self.comm))
        self.seen["abort_ms"] = passed_ms(since)
        self.stream.synchronize()
        self.seen["after_abort"] = "the stream is free"


def passed_ms(since):
    return round((time.monotonic() - since) * 1000, 1)


def be_rank(rank, folder):
    one = Rank(rank, folder)
    one.run()
    (folder / f"seen{rank}.json").write_text(json.dumps(one.seen))


def job(folder):
    ranks = []
    for rank in (0, 1):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                       "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo"}
        ranks.append(subprocess.Popen([sys.executable, __file__, "--rank", str(rank), str(folder)],
                                      env=environment))
    ends = time.monotonic() + 45
    for one in ranks:
        try:
            one.wait(max(0.1, ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
    return [json.loads(path.read_text()) if path.exists() else {"died": True}
            for path in (folder / f"seen{rank}.json" for rank in (0, 1))]


def run_part(name, command, environment):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command + [sys.executable, __file__, "--job", folder], text=True,
                              env={**os.environ, **environment}, capture_output=True, timeout=80)
        print(f"== {name}")
        for line in (done.stdout + done.stderr).splitlines():
            if "[sabot]" in line or "NET/Sabot" in line or "Error" in line:
                print("   " + line[:300])
        try:
            seen = json.loads((pathlib.Path(folder) / "both.json").read_text())
        except OSError:
            print(done.stdout[-2000:], done.stderr[-2000:])
            return [{}, {}]
    for one in seen:
        print("   " + json.dumps(one))
    return seen


def main():
    if sys.argv[1] == "--rank":
        be_rank(int(sys.argv[2]), pathlib.Path(sys.argv[3]))
        return 0
    if sys.argv[1] == "--job":
        folder = pathlib.Path(sys.argv[2])
        (folder / "both.json").write_text(json.dumps(job(folder)))
        return 0
    sabot = sys.argv[1]
    plugin = str(pathlib.Path(sabot).resolve().parents[1] / "lib" / "libnccl-net-sabot.so")
    over_net = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0",
                "NCCL_DEBUG": "WARN"}
    failures = []

    def expect(part, is_met, what):
        if not is_met:
            failures.append(f"{part}: {what}")

    ours = {**over_net, "NCCL_NET_PLUGIN": plugin, "NCCL_NET": "Sabot"}
    for name, environment in (("clean over Sabot's plugin", ours),
                              ("clean over NCCL's sockets",
                               {**over_net, "NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket"})):
        for one in run_part(name, [], environment):
            expect(name, one.get("rounds") == ROUNDS and one.get("wrong") == 0, "wrong or missing")
    faults = {
        "cut": "link(cut)",
        "drop": "link(drop)",
        "partition for 2 s": "link(partition,for=2s)",
        "delay": "link(delay,by=20ms)",
        "throttle": "link(throttle,rate=100MiB)",
    }
    for name, action in faults.items():
        fault = f"AllReduce[rank=1,nth=3]={action}"
        seen = run_part(name, [sabot, "run", "--engine", "real", "--real-nccl", vendor_path(),
                               "--fault", fault, "--"], {"NCCL_DEBUG": "WARN"})
        if name == "cut":
            for one in seen:
                found = one.get("async_error") or one.get("call")
                expect(name, found == "RemoteError", f"rank {one.get('rank')} saw {found}")
        elif name != "drop":
            for one in seen:
                expect(name, one.get("rounds") == ROUNDS and one.get("wrong") == 0,
                       "wrong or missing")
    for failure in failures:
        print("FAILED", failure)
    print("net plugin:", "failed" if failures else "NCCL saw the faults of its links")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
