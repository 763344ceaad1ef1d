"""Letting ``agent.memory``, ``agent.knowledge`` and ``agent.tools.memory`` be ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from vademecum.compat.cowagent.host import Host, host_of_cowagent, use
from vademecum.errors import UsageError

_HERE = __name__.rpartition(".")[0]
#: The host's names, and what stands for them.
_ALIASES = {
    "agent.memory": f"{_HERE}.memory",
    "agent.knowledge": f"{_HERE}.knowledge",
    "agent.tools.memory": f"{_HERE}.tools.memory",
}
#: Packages of the host that must be there for the names below them; empty where the host is not installed.
_PARENTS = ("agent", "agent.tools")


def install(host: Host | None = None) -> None:
    """Have the host's imports of its memory resolve to this one, with its services in ``host``.

    By default these are looked for in the modules of CowAgent itself, as far as they can be imported. A second call
    exchanges the services. Raises UsageError if the host's own modules have been imported already: objects of both
    would then be mixed.
    """
    for name, ours in _ALIASES.items():
        loaded = sys.modules.get(name)
        if loaded is not None and loaded.__name__ != ours:
            raise UsageError(f"{name} has been imported already; call install() before the host's own imports")
    use(host or host_of_cowagent())
    if not any(isinstance(finder, _Aliases) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Aliases())
        sys.meta_path.append(_Parents())


def uninstall() -> None:
    """Undo `install`; objects that were made stay usable."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Aliases | _Parents)]
    for name in [name for name in sys.modules if _ours(name) is not None]:
        parent, _, child = name.rpartition(".")
        if parent in sys.modules and _ours(parent) is None:
            vars(sys.modules[parent]).pop(child, None)
        del sys.modules[name]
    for name in reversed(_PARENTS):
        if isinstance(getattr(sys.modules.get(name), "__loader__", None), _Parents):
            del sys.modules[name]
    use(Host())


def _ours(name: str) -> str | None:
    for alias, ours in _ALIASES.items():
        if name == alias or name.startswith(f"{alias}."):
            return ours + name.removeprefix(alias)
    return None


class _Aliases(Loader):
    """A finder and loader that gives one of our modules under a second name."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        ours = _ours(name)
        try:
            found = None if ours is None else find_spec(ours)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return None
        return ModuleSpec(name, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(str(_ours(spec.name)))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given the module the spec of the alias, and by its own it finds its neighbours.
        alias = module.__spec__
        if alias is not None:
            module.__spec__ = self._specs.pop(alias.name, alias)


class _Parents(Loader):
    """Empty packages for hosts that are not there, such as tests and tools; asked last."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name in _PARENTS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        pass
