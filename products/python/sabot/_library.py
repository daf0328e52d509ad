"""Sabot's shared libraries as Python meets them: where they are, and the functions for faults.

A process has one Sabot. Where a library of it was preloaded, that one is used; else the stand-in
that lies beside this package is opened, whose functions lead to the process's Sabot in any case.
Bound by ctypes, so that no compiler and no torch is needed. Layouts are those of sabot/stack.h and
sabot/fault.h; a library that is too old for them is refused.
"""

from __future__ import annotations

import ctypes
import pathlib
import threading

_HERE = pathlib.Path(__file__).resolve().parent


class StackInfo(ctypes.Structure):
    """sabot_stack_info_t."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_char_p),
        ("library", ctypes.c_char_p),
        ("host_function", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
    ]


class FiringInfo(ctypes.Structure):
    """sabot_firing_t."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("injection", ctypes.c_uint64),
        ("fault", ctypes.c_char_p),
        ("function", ctypes.c_char_p),
        ("comm_label", ctypes.c_char_p),
        ("rank", ctypes.c_int),
        ("nth", ctypes.c_uint64),
        ("nth_collective", ctypes.c_uint64),
        ("match", ctypes.c_uint64),
        ("result", ctypes.c_int),
        ("journal_line", ctypes.c_char_p),
    ]


FIRED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(FiringInfo))
_INJECT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, FIRED, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_char_p, ctypes.c_size_t)
_WITHDRAW = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64), ctypes.c_char_p,
    ctypes.c_size_t)


class LibraryError(RuntimeError):
    """A library of Sabot is missing, or does not fit to this package."""


def _find(inside_wheel: str, inside_tree: str) -> pathlib.Path:
    # In a wheel the parts lie in the package; in a tree two folders up, beside python/.
    places = [_HERE / inside_wheel, _HERE.parent.parent / inside_tree]
    for place in places:
        if place.exists():
            return place
    raise LibraryError(
        f"{places[0].name} of Sabot is missing; looked for {places[0]} and {places[1]}: build the"
        " tree with `make` and use its python folder where it is, or install the wheel")


def standin() -> pathlib.Path:
    """Path of the stand-in for libnccl.so.2."""
    return _find("lib/standin/libnccl.so.2", "lib/standin/libnccl.so.2")


def preload() -> pathlib.Path:
    """Path of libsabot.so."""
    return _find("lib/libsabot.so", "lib/libsabot.so")


def include() -> pathlib.Path:
    """Path of the folder that has nccl.h and sabot/."""
    return _find("include", "include")


class Faults:
    """sabot_fault_inject and sabot_fault_withdraw of this process's Sabot."""

    def __init__(self) -> None:
        self._info = _stack()
        self.version = self._info.version.decode()
        self.inject = _INJECT(self._address("sabot_fault_inject"))
        self.withdraw = _WITHDRAW(self._address("sabot_fault_withdraw"))

    def _address(self, name: str) -> int:
        address = None
        if self._info.size >= ctypes.sizeof(StackInfo) and self._info.host_function:
            address = self._info.host_function(name.encode())
        if not address:
            raise LibraryError(
                f"the library of Sabot in this process ({self._info.library.decode()}, version"
                f" {self.version}) lacks {name}: it is older than the Python package; use both"
                " from one version")
        return int(address)


def _stack() -> StackInfo:
    try:
        function = ctypes.CDLL(None).sabot_stack_v1
    except AttributeError:
        path = standin()
        try:
            function = ctypes.CDLL(str(path)).sabot_stack_v1
        except OSError as error:
            raise LibraryError(f"cannot open {path}: {error}") from error
        except AttributeError:
            raise LibraryError(
                f"{path} is not a library of Sabot: it lacks sabot_stack_v1") from None
    function.restype = ctypes.POINTER(StackInfo)
    function.argtypes = []
    info: StackInfo = function().contents
    return info


_lock = threading.Lock()
_faults: Faults | None = None


def faults() -> Faults:
    """The functions, looked up once in a process."""
    global _faults
    with _lock:
        if _faults is None:
            _faults = Faults()
        return _faults
