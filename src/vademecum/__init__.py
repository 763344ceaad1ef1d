"""Long-term memory for AI agents: Markdown is the truth, SQLite the index, search is hybrid and native.

>>> from vademecum import Memory
>>> with Memory.open("~/notes") as memory:                            # doctest: +SKIP
...     memory.remember("Single positions stay under 5 % of the portfolio.")
...     for hit in memory.search("what is the limit for single positions?"):
...         print(hit.path, hit.start_line, hit.score, hit.text)

Importing this loads neither numpy nor any vendor's client.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vademecum.errors import VademecumError as VademecumError
    from vademecum.memory import AsyncMemory as AsyncMemory
    from vademecum.memory import Memory as Memory
    from vademecum.settings import Settings as Settings

__version__ = "0.1.0"

__all__ = ["AsyncMemory", "Memory", "Settings", "VademecumError"]

_HOMES = {
    "AsyncMemory": "vademecum.memory",
    "Memory": "vademecum.memory",
    "Settings": "vademecum.settings",
    "VademecumError": "vademecum.errors",
}


def __getattr__(name: str) -> Any:
    # Names are loaded when first used, so that a host's start-up does not pay for them.
    if name not in _HOMES:
        raise AttributeError(f"module 'vademecum' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
