"""The C++ half of the backend for this very torch: found, or compiled once and kept.

load() takes the first that exists: an extension that was built when the tree was staged, one in the
cache, one that it compiles now. The key of the cache covers all that could make two extensions
different, so nothing in it ever needs to be updated. Ranks start at once, so a lock lets one of
them compile while the others wait; a file appears under its name only when it is complete.

    python -m sabot._build --output FOLDER   compiles into FOLDER, for packagers
    python -m sabot._build --describe        prints what a build has to fit, as JSON
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types

from sabot import _compile, _knobs, _library, _lock, _target

_HERE = pathlib.Path(__file__).resolve().parent
_MODULE = "sabot._native"
_FILE = "_native.so"
_LOG = "build.log"
_mutex = threading.Lock()


class BuildError(RuntimeError):
    """There is no extension for this torch, and none could be made."""


def load() -> types.ModuleType:
    """The module sabot._native, for the torch of this process. Thread-safe; later calls are free.

    BuildError, TargetError and LibraryError say what is missing and what to do about it.
    """
    with _mutex:
        loaded = sys.modules.get(_MODULE)
        if loaded is not None:
            return loaded
        import torch

        target = _target.describe(torch)
        path = find(target) or build(target)
        return _load_file(path)


def find(target: _target.Target) -> pathlib.Path | None:
    """The extension for a target, if it has been built already."""
    for place in (_HERE / "prebuilt" / target.name, _cached(target)):
        if (place / _FILE).exists():
            return place / _FILE
    return None


def build(target: _target.Target) -> pathlib.Path:
    """Compiles the extension into the cache, or waits for another process that is doing so."""
    place = _cached(target)
    sources()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _lock.held(place / "lock", f"the torch extension in {place}"):
            if not (place / _FILE).exists():
                _announce(target, place)
                _make(target, place)
    except OSError as error:
        raise BuildError(
            f"cannot write the torch extension to the cache {place}: {error.strerror or error}; set"
            " SABOT_CACHE to a folder that can be written, or build the extension beforehand with"
            " `make torch`") from error
    return place / _FILE


def _announce(target: _target.Target, place: pathlib.Path) -> None:
    # A minute of silence at the start of a training job would look like a hang.
    sys.stderr.write(f"[sabot] compiling the backend for torch {target.torch_version}, once; it is"
                     f" kept in {place}\n")
    sys.stderr.flush()


def sources() -> list[pathlib.Path]:
    """The C++ sources of the package."""
    found = sorted((_HERE / "csrc").rglob("*.cpp"))
    if not found:
        raise BuildError(
            f"there are no sources in {_HERE / 'csrc'}; use the staged tree (`make`) or the wheel,"
            " not products/python itself")
    return found


def _cached(target: _target.Target) -> pathlib.Path:
    from sabot import __version__

    digest = hashlib.sha256(f"{__version__}\n{target.identity}\n".encode())
    folders = [_HERE / "csrc"]
    if folders[0].is_dir():
        folders.append(_library.include())
    for folder in folders:
        for path in sorted(folder.rglob("*.[ch]*")):
            if not path.name.startswith("."):
                digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return _knobs.cache_folder() / f"{target.name}-{digest.hexdigest()[:16]}"


def _make(target: _target.Target, place: pathlib.Path) -> None:
    """Compiles into a scratch folder beside the result, then gives the result its name."""
    with tempfile.TemporaryDirectory(prefix="building-", dir=place) as scratch:
        job = _compile.Job(
            target=target, sources=sources(), scratch=pathlib.Path(scratch),
            include_folders=[_HERE / "csrc", _library.include()])
        try:
            made = _compile.run(job, _FILE)
        except _compile.CompileError as error:
            raise BuildError(_failure(error, target, place)) from None
        os.replace(made, place / _FILE)


def _failure(error: _compile.CompileError, target: _target.Target, place: pathlib.Path) -> str:
    head = f"cannot build the backend \"sabot\" for torch {target.torch_version}: {error}"
    if not error.output:
        return f"{head}\nthe file that is wanted is {place / _FILE}"
    (place / _LOG).write_text(error.output)
    return f"{head}\nthe whole output is in {place / _LOG}"


def _load_file(path: pathlib.Path) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, path, loader=loader)
    try:
        if spec is None:
            raise ImportError(f"{path} is no extension module")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise BuildError(
            f"{error}\n{path} does not fit to this torch although it was built for it; delete the"
            " folder that it is in, and it is built again") from error
    sys.modules[_MODULE] = module
    return module


def main(words: list[str]) -> int:
    """The command line; status 1 with the reason on stderr where there is none to be had."""
    parser = argparse.ArgumentParser(prog="python -m sabot._build", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--output", type=pathlib.Path, help="compile the extension into this folder")
    what.add_argument("--describe", action="store_true", help="print the target as JSON")
    options = parser.parse_args(words)
    try:
        import torch

        target = _target.describe(torch)
        if options.describe:
            print(json.dumps({"name": target.name, "libraries": target.libraries,
                              **dataclasses.asdict(target)}))
        else:
            options.output.mkdir(parents=True, exist_ok=True)
            _make(target, options.output)
            print(options.output / _FILE)
    except (ImportError, OSError, BuildError, _target.TargetError, _library.LibraryError,
            subprocess.SubprocessError) as error:
        print(f"sabot._build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
