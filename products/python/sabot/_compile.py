"""Running the C++ compiler over the sources of the extension, several at a time.

A compiler of torch's headers needs close to a gigabyte, so memory bounds their number as much as
processors do: a first import happens on small machines too. Warnings of torch's headers are not the
user's affair: they are included as system headers. What a failing compiler printed is in the error.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess

from sabot import _knobs, _target

_PARALLEL_MIN = 2
_PARALLEL_MAX = 8
_COMPILER_BYTES = 1 << 30
_TIMEOUT_S = 900
_SHOWN_LINES = 8
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden",
          "-fvisibility-inlines-hidden", "-pthread")


class CompileError(RuntimeError):
    """No compiler, or one that failed; output is all that it printed."""

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(text)
        self.output = output


@dataclasses.dataclass(frozen=True)
class Job:
    """What to compile, for which target, and where the pieces go."""

    target: _target.Target
    sources: list[pathlib.Path]
    scratch: pathlib.Path
    include_folders: list[pathlib.Path]


def find_compiler() -> list[str]:
    """The words that start the compiler: $CXX, else what is on PATH."""
    named = _knobs.compiler()
    candidates = [shlex.split(named)] if named else [["c++"], ["g++"], ["clang++"]]
    for words in candidates:
        if shutil.which(words[0]):
            return words
    tried = " ".join(words[0] for words in candidates)
    raise CompileError(
        f"there is no C++ compiler (looked for {tried}{' of CXX' if named else ''}); install one"
        " that knows C++20 (g++ 11 or newer; `apt-get install g++`), or set CXX")


def run(job: Job, name: str) -> pathlib.Path:
    """Compiles and links; returns the shared object, in the scratch folder."""
    compiler = find_compiler()
    objects = [job.scratch / f"{index}-{source.stem}.o"
               for index, source in enumerate(job.sources)]
    commands = [[*compiler, *_compile_words(job), "-c", str(source), "-o", str(made)]
                for source, made in zip(job.sources, objects)]
    with concurrent.futures.ThreadPoolExecutor(_parallel()) as pool:
        pending = [pool.submit(_execute, command) for command in commands]
        try:
            for future in pending:
                future.result()
        finally:
            # After one failure the others would only delay its message.
            for future in pending:
                future.cancel()
    made = job.scratch / name
    _execute([*compiler, "-shared", "-pthread", *map(str, objects), *_link_words(job.target), "-o",
              str(made)])
    return made


def _parallel() -> int:
    """How many compilers this machine has room for."""
    free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    room = min(len(os.sched_getaffinity(0)), free_bytes // _COMPILER_BYTES)
    return max(_PARALLEL_MIN, min(room, _PARALLEL_MAX))


def _compile_words(job: Job) -> list[str]:
    words = list(_FLAGS)
    words += [f"-D{definition}" for definition in job.target.definitions]
    words += [f"-I{folder}" for folder in job.include_folders]
    for folder in job.target.include_folders:
        words += ["-isystem", folder]
    return words


def _link_words(target: _target.Target) -> list[str]:
    return [*(f"-L{folder}" for folder in target.library_folders),
            *(f"-l{library}" for library in target.libraries)]


def _execute(command: list[str]) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{shlex.join(command)} took more than {_TIMEOUT_S} s") from None
    except OSError as error:
        raise CompileError(f"cannot start {command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        printed = done.stdout.decode(errors="replace")
        raise CompileError(f"the compiler failed with status {done.returncode}:"
                           f"\n{_first_errors(printed)}", f"{shlex.join(command)}\n{printed}")


def _first_errors(printed: str) -> str:
    """The lines that a person needs: the first errors, without the notes around them."""
    lines = printed.splitlines()
    errors = [line for line in lines if "error" in line or "undefined reference" in line]
    return "\n".join(f"    {line}" for line in (errors or lines)[:_SHOWN_LINES])
