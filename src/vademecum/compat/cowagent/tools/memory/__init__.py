"""The tools by which a model searches and reads."""

from vademecum.compat.cowagent.tools.memory.memory_get import MemoryGetTool
from vademecum.compat.cowagent.tools.memory.memory_search import MemorySearchTool

__all__ = ["MemoryGetTool", "MemorySearchTool"]
