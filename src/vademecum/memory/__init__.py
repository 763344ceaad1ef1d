"""The public face of the library. Only this room picks concrete classes."""

from vademecum.memory.aio import AsyncMemory
from vademecum.memory.facade import Memory, init

__all__ = ["AsyncMemory", "Memory", "init"]
