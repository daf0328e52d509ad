"""torch.distributed over Sabot: the backend "sabot", and proxies around every other backend.

Importing this module registers "sabot" for CPU tensors, and for each backend X that torch knows the
proxy "sabot:X" with its alias "sabot-X", which also fits between a colon and a comma:
"cpu:sabot-gloo,cuda:sabot-nccl". From torch 2.5 on an entry point does that at `import torch`, so
registering costs microseconds: no library is opened, and nothing compiled, before a group is made.

What a backend does stands in C++ (src/pytorch); here is only who is created when, and why not.
"""

from __future__ import annotations

import datetime
import weakref
from typing import Any, Callable

import torch
from sabot import _build, _library, _target

__all__ = ["SabotError", "backends", "monitored_barrier", "register", "wrap"]

# What torch may have built in. Those that this torch lacks are registered too, since their name is
# better answered by a sentence than by torch's parser.
_BUILT_IN = {"gloo": ["cpu", "cuda"], "nccl": ["cuda"], "mpi": ["cpu", "cuda"],
             "ucc": ["cpu", "cuda"]}
# Further forms of NCCL, of torch 2.14 and later.
_OF_NCCL = ("nccl2", "nccl-lazy", "nccl-legacy")
_CLASSES = {"gloo": "ProcessGroupGloo", "nccl": "ProcessGroupNCCL", "ucc": "ProcessGroupUCC",
            "xccl": "ProcessGroupXCCL"}

# The backend of ours in each group, by the store of the group, which lives as long as the group.
_groups: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class SabotError(RuntimeError):
    """A backend of Sabot was asked for that this process cannot have."""


def _c10d() -> Any:
    """torch.distributed.distributed_c10d, or SabotError."""
    try:
        _target.check_version(str(torch.__version__))
    except _target.TargetError as error:
        raise SabotError(str(error)) from None
    import torch.distributed as dist

    if not dist.is_available():
        raise SabotError(
            f"this torch {torch.__version__} was built without torch.distributed, so it can have no"
            " backend; use a build with USE_DISTRIBUTED=1")
    import torch.distributed.distributed_c10d as c10d

    return c10d


def register() -> None:
    """Makes the names known to torch; again where it was done before, for backends added since."""
    c10d = _c10d()
    _register(c10d, "sabot", _create, ["cpu"])
    for name in _known(c10d):
        wrap(name)


def wrap(name: str) -> str:
    """Registers the proxy around one backend and returns its name, "sabot-NAME".

    For a plugin that was registered after this module was imported.
    """
    c10d = _c10d()
    inner = name.lower()
    if inner.startswith("sabot"):
        raise SabotError(f"'{name}' is a backend of Sabot already; wrap another one")
    if inner not in _known(c10d):
        raise SabotError(f"torch {torch.__version__} has no backend '{name}' to wrap; it has"
                         f" {', '.join(backends())}")
    devices = c10d.Backend.backend_capability.get(inner) or _BUILT_IN.get(inner, ["cuda"])
    alias = f"sabot-{inner}"
    for title in (f"sabot:{inner}", alias):
        _register(c10d, title, _proxy_creator(inner, title), list(devices))
    return alias


def backends() -> list[str]:
    """The backends that can be wrapped here: torch's own, as far as built in, and plugins."""
    c10d = _c10d()
    return [name for name in _known(c10d) if _is_available(c10d, name)]


def _known(c10d: Any) -> list[str]:
    names = list(_BUILT_IN)
    if hasattr(c10d.Backend, "_ensure_backend_registered"):
        names += _OF_NCCL
    for name in list(c10d.Backend.backend_list):
        if name not in names and name != "undefined" and not name.startswith("sabot"):
            names.append(name)
    return names


def _is_available(c10d: Any, name: str) -> bool:
    kind = "nccl" if name in _OF_NCCL else name
    available = getattr(c10d, f"is_{kind}_available", None)
    if available is not None:
        return bool(available())
    return name.upper() in c10d.Backend._plugins


def _register(c10d: Any, name: str, create: Callable[..., Any], devices: list[str]) -> None:
    backend = c10d.Backend
    if name.upper() in backend._plugins:
        return
    # torch makes a plugin the default of every device that is neither cpu nor cuda. Nobody asked
    # for that by having Sabot installed.
    defaults = dict(getattr(backend, "default_device_backend_map", {}))
    backend.register_backend(name, create, extended_api=True, devices=devices)
    if defaults:
        backend.default_device_backend_map.clear()
        backend.default_device_backend_map.update(defaults)


def _native() -> Any:
    """The extension, with the process's library of Sabot opened in it."""
    try:
        native = _build.load()
        native.use_library(str(_library.standin()))
    except (_build.BuildError, _target.TargetError, _library.LibraryError) as error:
        raise SabotError(str(error)) from error
    return native


def _timeout(value: Any) -> datetime.timedelta:
    if isinstance(value, datetime.timedelta):
        return value
    return datetime.timedelta(seconds=float(value))


def _ranks(options: Any) -> list[int]:
    # torch leaves the list empty for the default group, whose ranks are the world's.
    return list(options.global_ranks_in_group) or list(range(options.group_size))


def _create(options: Any, backend_options: Any = None) -> Any:
    """Called by torch for a group over "sabot"."""
    if backend_options is not None and type(backend_options).__name__ != "Options":
        raise SabotError(f"the backend \"sabot\" takes no options of type"
                         f" {type(backend_options).__name__}")
    backend = _native().create(
        options.store, options.group_rank, options.group_size, _timeout(options.timeout),
        str(options.group_id), _ranks(options))
    return _one_of_group(options, "sabot", backend)


def _proxy_creator(inner: str, title: str) -> Callable[..., Any]:
    def create(options: Any, backend_options: Any = None) -> Any:
        c10d = _c10d()
        if not _is_available(c10d, inner):
            raise SabotError(
                f"cannot create '{title}': this torch {torch.__version__} has no backend '{inner}'"
                f" to wrap; it has {', '.join(backends())}")
        native = _native()
        wrapped = _create_inner(c10d, inner, options, backend_options)
        if wrapped is None:  # MPI: this process is not in the group
            return None
        backend = native.create_proxy(
            wrapped, inner, wrapped.rank(), wrapped.size(), str(options.group_id),
            _ranks(options))
        return _one_of_group(options, title, backend)

    return create


def _create_inner(c10d: Any, inner: str, options: Any, backend_options: Any) -> Any:
    """The backend under the proxy, made as torch itself would make it."""
    # From 2.14 on torch's own backends are plugins as well.
    ensure = getattr(c10d.Backend, "_ensure_backend_registered", None)
    if ensure is not None:
        ensure(inner)
    plugin = c10d.Backend._plugins.get(inner.upper())
    if plugin is not None:
        if plugin.extended_api:
            return plugin.creator_fn(options, backend_options)
        return plugin.creator_fn(
            options.store, options.group_rank, options.group_size, _timeout(options.timeout))
    if inner == "mpi":
        return c10d.ProcessGroupMPI.create(list(options.global_ranks_in_group))
    return _create_built_in(c10d, inner, options, backend_options)


def _create_built_in(c10d: Any, inner: str, options: Any, backend_options: Any) -> Any:
    kind = getattr(c10d, _CLASSES[inner])
    timeout = _timeout(options.timeout)
    where = (options.store, options.group_rank, options.group_size)
    if inner in ("nccl", "xccl"):
        settings = backend_options if backend_options is not None else kind.Options()
        settings._timeout = timeout
        _name_group(settings, options)
        backend = kind(*where, settings)
    else:
        backend = kind(*where, timeout=timeout)
        _name_group(getattr(backend, "options", None), options)
    if inner in ("gloo", "nccl"):
        backend._set_sequence_number_for_group()
    return backend


def _name_group(settings: Any, options: Any) -> None:
    # Fields that came with newer versions of torch; its flight recorder and messages show them.
    if hasattr(settings, "global_ranks_in_group"):
        settings.global_ranks_in_group = list(options.global_ranks_in_group)
    if hasattr(settings, "group_name"):
        settings.group_name = str(options.group_id)


def _one_of_group(options: Any, title: str, backend: Any) -> Any:
    """Refuses a second backend of ours in one group, which torch would silently not use.

    A ProcessGroup keeps one backend of type CUSTOM, and gives it to every device whose backend is
    CUSTOM: under "cpu:sabot,cuda:sabot-nccl" CUDA tensors would be handed to the first.
    """
    group_store = getattr(options.store, "underlying_store", None)
    if group_store is None:
        return backend
    first = _groups.get(group_store)
    if first is not None:
        raise SabotError(
            f"torch keeps one custom backend in a process group, so '{first}' and '{title}' cannot"
            " share one; give one of the devices a backend of torch itself, as in"
            " \"cpu:sabot,cuda:nccl\" under `sabot run`, or make two groups")
    _groups[group_store] = title
    return backend


def monitored_barrier(
    group: Any = None,
    timeout: datetime.timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """torch.distributed.monitored_barrier for groups over "sabot".

    torch's own function refuses every backend but gloo by name. A rank that does not come within
    the timeout (default: that of the group) is named in the error on every other rank; with
    wait_all_ranks all of them are.
    """
    c10d = _c10d()
    if c10d._rank_not_in_group(group):
        return
    process_group = c10d._get_default_group() if group is None else group
    if timeout is None:
        process_group.monitored_barrier(wait_all_ranks=wait_all_ranks)
        return
    limit = _timeout(timeout)
    if limit <= datetime.timedelta(0):
        raise ValueError(f"the timeout of a barrier must be positive, not {limit}")
    process_group.monitored_barrier(limit, wait_all_ranks=wait_all_ranks)


register()
