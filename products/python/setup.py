"""Puts the wheel together from the tree that CMake installs; everything else is pyproject.toml.

Builds in build/release, the tree of `make`, so that a clone that was built before is not built
again; setuptools' own DIST_EXTRA_CONFIG may name another, as `tree` of [build_py]. The installed
tree (bin, lib, include, share, python) becomes one package: the command line finds its libraries,
and the package finds both, by the same relative paths as in a staged tree.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "release"
TARGETS = ("sabot_preload", "sabot_standin", "sabot_net", "sabot_cli", "example_allreduce")
# From the installed tree into the package.
PARTS = ("bin", "include", "share", "lib/libsabot.so", "lib/libnccl-net-sabot.so",
         "lib/standin/libnccl.so.2")


def version():
    line = re.search(r'^__version__ = "(.+)"$', (HERE / "sabot/__init__.py").read_text(), re.M)
    return line.group(1)


def run(*words):
    try:
        subprocess.run(list(map(str, words)), cwd=ROOT, check=True)
    except FileNotFoundError:
        raise SystemExit(f"{words[0]} is missing; a wheel of Sabot is built by CMake 3.22 or newer,"
                         " Ninja and a C++20 compiler (tools/install-dependencies build)") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{words[0]} failed with status {error.returncode}; its lines above say"
                         " why") from None


def install_tree(build, folder):
    """Builds what is missing and installs it, the extension for one torch left out."""
    if not (ROOT / "CMakeLists.txt").exists():
        raise SystemExit(f"{ROOT} is not a clone of Sabot: build the wheel where the sources are,"
                         " with `pip wheel ./products/python`")
    if not (build / "CMakeCache.txt").exists():
        run("cmake", "--preset", "release", "-B", build, "-DSABOT_TESTS=OFF")
    run("cmake", "--build", build, "--target", *TARGETS)
    run("cmake", "--install", build, "--component", "Unspecified", "--prefix", folder)


class BuildPackage(build_py):
    """The package as CMake installs it, with its parts inside."""

    user_options = [*build_py.user_options, ("tree=", None, "the build tree to take it from")]

    def initialize_options(self):
        super().initialize_options()
        self.tree = str(BUILD)

    def run(self):
        package = pathlib.Path(self.build_lib) / "sabot"
        shutil.rmtree(package, ignore_errors=True)
        with tempfile.TemporaryDirectory() as scratch:
            tree = pathlib.Path(scratch)
            install_tree(pathlib.Path(self.tree), tree)
            shutil.copytree(tree / "python" / "sabot", package)
            for part in PARTS:
                target = package / part
                target.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (tree / part).is_dir() else shutil.copy2
                copy(tree / part, target)

    def get_outputs(self, include_bytecode=1):
        package = pathlib.Path(self.build_lib) / "sabot"
        return [str(path) for path in package.rglob("*") if path.is_file()]


class PlatformPackage(Distribution):
    """It carries libraries, though no extension module of Python's."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """No compiled module is in it, so any Python 3 of this platform will do."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(
    version=version(),
    distclass=PlatformPackage,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": PlatformWheel},
)
