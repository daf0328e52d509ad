"""A lock between processes on a file, with a bound.

The kernel lets go of it when its holder ends, however that happens, so there is nothing stale to
clean up. The file says who holds it, for the message of somebody who waited too long.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import time
from collections.abc import Iterator

# Fifteen times what a build takes on two processors.
WAIT_S = 1200.0
_POLL_S = 0.05


class LockTimeout(RuntimeError):
    """Somebody else held the lock for too long."""


@contextlib.contextmanager
def held(path: pathlib.Path, what: str, wait_s: float | None = None) -> Iterator[None]:
    """Holds the lock during the block; LockTimeout after wait_s. `what` is named in the error."""
    limit_s = WAIT_S if wait_s is None else wait_s
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + limit_s
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "unknown"
                raise LockTimeout(
                    f"waited {limit_s:g} s for {what}, which process {holder} is building; look"
                    f" what that process does, end it, and start again")
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
