"""What a compiled extension has to fit: this torch, this Python, this C++ ABI.

c10d has no stable ABI, so an extension serves exactly one build of torch under one version of
Python. A Target holds what tells such pairs apart, and the words for the compiler. Nothing here
goes through torch.utils.cpp_extension, which needs setuptools where recent Pythons have none.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sysconfig
import types

TORCH_MIN = (2, 2)
_PROBE = "torch/csrc/distributed/c10d/Backend.hpp"
# What an extension refers to; torch has loaded them already, hence no path to them is recorded.
_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")


class TargetError(RuntimeError):
    """This torch cannot have the backend; the text says why."""


@dataclasses.dataclass(frozen=True)
class Target:
    """One pair of torch and Python."""

    torch_version: str
    torch_build: str  # the commit it was built from, "" if it does not say
    python_abi: str
    cxx11_abi: int
    include_folders: tuple[str, ...]
    library_folders: tuple[str, ...]
    definitions: tuple[str, ...]

    @property
    def name(self) -> str:
        """A file name that no other pair has."""
        version = re.sub(r"[^\w.+-]", "_", self.torch_version)
        return f"torch-{version}-{self.python_abi}-abi{self.cxx11_abi}"

    @property
    def identity(self) -> str:
        """All that makes a difference to what is compiled."""
        return "\n".join((self.name, self.torch_build, *self.definitions))

    @property
    def libraries(self) -> tuple[str, ...]:
        return _LIBRARIES


def check_version(version: str) -> None:
    """Raises TargetError for a torch that is too old for c10d::Backend as it is used here."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < TORCH_MIN:
        raise TargetError(
            f"the backend \"sabot\" needs torch {TORCH_MIN[0]}.{TORCH_MIN[1]} or newer, and this is"
            f" torch {version}; under this one `sabot run` still reaches NCCL")


def describe(torch: types.ModuleType) -> Target:
    """The target of the torch that this process has imported."""
    version = str(torch.__version__)
    check_version(version)
    home = pathlib.Path(str(torch.__file__)).resolve().parent
    core = torch._C
    definitions = [
        f"_GLIBCXX_USE_CXX11_ABI={int(core._GLIBCXX_USE_CXX11_ABI)}",
        "TORCH_EXTENSION_NAME=_native",
        "TORCH_API_INCLUDE_EXTENSION_H",
        "SABOT_NCCL_WITHOUT_CUDA",
    ]
    # Types are shared with torch's own extension modules only where these agree.
    for part in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
        value = getattr(core, f"_PYBIND11_{part}", None)
        if value is not None:
            definitions.append(f'PYBIND11_{part}="{value}"')
    return Target(
        torch_version=version,
        torch_build=str(getattr(torch.version, "git_version", None) or ""),
        python_abi=str(sysconfig.get_config_var("SOABI")),
        cxx11_abi=int(core._GLIBCXX_USE_CXX11_ABI),
        include_folders=(*_torch_headers(home, version), _python_headers()),
        library_folders=_torch_libraries(home),
        definitions=tuple(definitions))


def _torch_headers(home: pathlib.Path, version: str) -> tuple[str, ...]:
    # Wheels carry their headers; a distribution's package has them where those of C++ are.
    places = [home / "include", pathlib.Path("/usr/include")]
    for place in places:
        if (place / _PROBE).exists():
            more = place / "torch/csrc/api/include"
            return (str(place), str(more))
    raise TargetError(
        f"the headers of torch {version} are missing: there is no {_PROBE} below"
        f" {places[0]} or {places[1]}; install them (libtorch-dev on Debian and Ubuntu)")


def _python_headers() -> str:
    folder = pathlib.Path(sysconfig.get_path("include"))
    if not (folder / "Python.h").exists():
        raise TargetError(
            f"the headers of this Python are missing: there is no {folder / 'Python.h'}; install"
            " them (python3-dev on Debian and Ubuntu)")
    return str(folder)


def _torch_libraries(home: pathlib.Path) -> tuple[str, ...]:
    return tuple(str(place) for place in (home / "lib",) if place.is_dir())
