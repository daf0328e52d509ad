"""Sabot from Python: break collectives on purpose, in training scripts and in unit tests.

`import sabot.torch` (or nothing, from torch 2.5 on) gives torch.distributed the backend "sabot";
`sabot.inject` places a fault for the length of a `with` block, for torch and for everything else
in this process that goes through Sabot; `sabot.run_folder` says where the run keeps its records.

Importing this package opens no library, compiles nothing and needs no torch. The shared libraries
are found beside it: in a wheel below sabot/lib, in a staged tree in the folder lib beside python.
"""

from __future__ import annotations

import pathlib

from sabot import _knobs, _library
from sabot.faults import FaultNotFired, Firing, Injection, inject

__version__ = "0.1.0"

__all__ = [
    "FaultNotFired",
    "Firing",
    "Injection",
    "__version__",
    "include_folder",
    "inject",
    "preload_library",
    "run_folder",
    "standin_library",
]


def run_folder() -> pathlib.Path | None:
    """The folder of the run that this process belongs to, or None outside of one.

    `sabot run` names it to every process that it starts; it holds the journal of the faults that
    fired, which scenario was meant, and a record of each process that was attached to.
    """
    named = _knobs.read("SABOT_RUN_FOLDER")
    return pathlib.Path(named).absolute() if named else None


def standin_library() -> pathlib.Path:
    """The complete libnccl.so.2 of Sabot, for programs that open NCCL by path."""
    return _library.standin()


def preload_library() -> pathlib.Path:
    """libsabot.so, for LD_PRELOAD in front of a real NCCL."""
    return _library.preload()


def include_folder() -> pathlib.Path:
    """The folder of nccl.h and sabot/*.h that belong to these libraries."""
    return _library.include()
