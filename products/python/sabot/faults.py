"""Faults for the length of a block: `with sabot.inject("AllReduce", rank=1, nth=3, error=…)`.

The words become one line of the grammar of scenarios (docs/reference/scenario.md), which the
library parses: what is wrong with them is said by the same sentences as for a scenario file. From
the beginning of the block to its end the fault is armed beside those of the run, and each firing is
reported back. Several ranks execute the same line; it fires on those that its conditions name.
"""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
import json
import operator
import os
import re
import types
from collections.abc import Sequence
from typing import Any, Union

from sabot import _library

_ACTIONS = (
    "error", "async_error", "delay", "hang", "skip", "mismatch", "corrupt", "crash", "link",
    "exhaust",
)
# Parameters of actions. `peer` and `after` are conditions too, and mean those here.
_PARAMETERS = ("at", "on", "jitter", "distribution", "to", "elements", "by", "rate", "for")

_PLAIN_WORD = re.compile(r"[A-Za-z_][\w.*?/-]*\Z", re.ASCII)
_TEXT_BYTES_MAX = 8192
_IN_PROGRESS = 7
_SUCCESS = 0

Value = Union[bool, int, float, str, datetime.timedelta, Sequence[Union[int, str]]]

# Callbacks that a thread may still be in: freeing one would crash it.
_kept_for_ever: list[Any] = []


class FaultNotFired(AssertionError):
    """A fault that had to fire never did: the test tested nothing."""


@dataclasses.dataclass(frozen=True)
class Firing:
    """One call that a fault hit."""

    fault: str
    function: str
    comm: str
    rank: int
    nth: int
    nth_collective: int
    match: int
    result: int
    journal_line: str

    @property
    def record(self) -> dict[str, Any]:
        """The line of the journal: all there is to know about this firing."""
        record: dict[str, Any] = json.loads(self.journal_line)
        return record


class Injection:
    """Faults that are armed while the block runs, or from arm() to withdraw()."""

    def __init__(self, text: str, required: bool = False) -> None:
        if "\0" in text:
            raise ValueError("a fault has no place for a null character")
        self.text = text
        self.required = required
        self.firings: list[Firing] = []
        self.why_not = ""
        self._id = 0
        self._process = 0
        self._callback: Any = None

    @property
    def fired(self) -> int:
        """How often the faults have fired so far in this process."""
        return len(self.firings)

    @property
    def is_armed(self) -> bool:
        """Whether the faults can fire now. A forked child has none of its parent."""
        return self._id != 0 and self._process == os.getpid()

    def arm(self) -> Injection:
        """Arms the faults; ValueError says what is wrong with the text."""
        if self.is_armed:
            raise RuntimeError("this injection is armed already; make another one")
        library = _library.faults()
        identity = ctypes.c_uint64()
        error = ctypes.create_string_buffer(_TEXT_BYTES_MAX)
        # Bound to the list, not to self: an injection that is forgotten must not be kept alive.
        firings = self.firings = []
        callback = _library.FIRED(lambda _, info: firings.append(_firing(info.contents)))
        result = library.inject(
            self.text.encode(), callback, None, ctypes.byref(identity), error, _TEXT_BYTES_MAX)
        if result != _SUCCESS:
            raise ValueError(error.value.decode(errors="replace"))
        self._id, self._process, self._callback = identity.value, os.getpid(), callback
        return self

    def withdraw(self) -> int:
        """Disarms the faults and returns how often they fired; later calls change nothing."""
        if not self.is_armed:
            return self.fired
        identity, callback = self._id, self._callback
        self._id, self._callback = 0, None
        why_not = ctypes.create_string_buffer(_TEXT_BYTES_MAX)
        result = _library.faults().withdraw(identity, None, why_not, _TEXT_BYTES_MAX)
        if result == _IN_PROGRESS:
            _kept_for_ever.append(callback)
        self.why_not = why_not.value.decode(errors="replace").strip()
        return self.fired

    def check(self) -> None:
        """Raises FaultNotFired if the fault was required and none of it has fired."""
        if self.required and not self.fired:
            reason = f": {self.why_not}" if self.why_not else ""
            raise FaultNotFired(f"{self.text!r} did not fire on this rank{reason}")

    def __enter__(self) -> Injection:
        return self.arm()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self.withdraw()
        if error is None:
            self.check()

    def __del__(self) -> None:
        # Without this the library would call into a callback that is gone.
        if getattr(self, "_id", 0):
            self.withdraw()

    def __repr__(self) -> str:
        state = "armed" if self.is_armed else "not armed"
        return f"<Injection {self.text!r}, {state}, fired {self.fired}>"


def inject(
    call: str | Sequence[str] | None = None,
    *,
    text: str | None = None,
    name: str | None = None,
    required: bool = False,
    **words: Value | None,
) -> Injection:
    """A fault for a `with` block.

    call is a function of NCCL ("AllReduce"), a list of them, or a group ("any collective"). One
    keyword is the action (error="SystemError"), its parameters may follow (at="after"); all others
    are conditions: rank=1, nth=3, bytes=">=1MiB", comm="c0", budget=1. Keywords that are None do
    not count. nth and its like count from the beginning of the block.

    text gives the fault in words of the scenario grammar instead: one line as in SABOT_FAULT, or a
    TOML document. With required=True the end of the block raises FaultNotFired, with what came
    closest, if nothing fired on this rank and no other exception is on its way.

    What cannot be a fault is refused with ValueError, when the block begins.
    """
    if text is not None:
        given = [key for key, value in words.items() if value is not None]
        if call is not None or name is not None or given:
            raise ValueError("text is the whole fault: it cannot be combined with"
                             f" {', '.join(given) or 'a call or a name'}")
        return Injection(text, required)
    if call is None:
        raise ValueError('the call is missing; write for instance inject("AllReduce",'
                         ' rank=1, nth=3, error="SystemError")')
    return Injection(_line(call, name, words), required)


def _line(call: str | Sequence[str], name: str | None, words: dict[str, Value | None]) -> str:
    # `for` is a word of Python: for_="5s".
    given = {key.rstrip("_"): value for key, value in words.items() if value is not None}
    actions = [key for key in given if key in _ACTIONS]
    if len(actions) != 1:
        found = f"not {len(actions)} ({', '.join(actions)})" if actions else "and there is none"
        raise ValueError(f"a fault has exactly one action, {found}; write for instance"
                         ' error="SystemError"')
    arguments = [_rendered(given[actions[0]])]
    arguments += [f"{key}={_rendered(given[key])}" for key in _PARAMETERS if key in given]
    conditions = [f"{key}={_rendered(value)}" for key, value in given.items()
                  if key not in _ACTIONS and key not in _PARAMETERS]
    title = call if isinstance(call, str) else "|".join(call)
    for word, meaning in ((title, "call"), (name or "", "name")):
        if re.search(r"[][=;:\n]", word):
            raise ValueError(f"{word!r} is no {meaning}; give conditions and action as keywords, or"
                             " the whole fault as text=")
    prefix = f"{name}: " if name else ""
    condition = f"[{','.join(conditions)}]" if conditions else ""
    return f"{prefix}{title}{condition}={actions[0]}({','.join(arguments)})"


def _rendered(value: Any) -> str:
    """A value in the one-line form: quoted unless it cannot be taken for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if _PLAIN_WORD.match(value) and value not in ("true", "false"):
            return value
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, datetime.timedelta):
        return f'"{value // datetime.timedelta(microseconds=1)}us"'
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Sequence):
        return "[" + ",".join(_rendered(item) for item in value) + "]"
    try:
        return str(operator.index(value))
    except TypeError:
        raise ValueError(f"{value!r} cannot be a value of a condition; write a number, a text or a"
                         " list") from None


def _firing(info: _library.FiringInfo) -> Firing:
    def text(value: bytes | None) -> str:
        return (value or b"").decode(errors="replace")

    return Firing(
        fault=text(info.fault), function=text(info.function), comm=text(info.comm_label),
        rank=info.rank, nth=info.nth, nth_collective=info.nth_collective, match=info.match,
        result=info.result, journal_line=text(info.journal_line))
