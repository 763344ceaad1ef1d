"""The tool ``memory_get``."""

from __future__ import annotations

from typing import Any, ClassVar

from vademecum import Memory
from vademecum.compat.cowagent.host import host
from vademecum.errors import MissingFileError, PathError, VademecumError

_Tool: Any = host().tool_class()
_ROOTS = ("memory/", "knowledge/", "MEMORY.md")


class MemoryGetTool(_Tool):  # type: ignore[misc] # the host's own class, where there is one
    """Reads pages of the memory and of the knowledge base, and nothing else of the workspace."""

    name = "memory_get"
    description = "Read a page of the memory, or lines of it, after memory_search has told where to look."
    params: ClassVar = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The page, as search printed it, such as memory/2026-01-31.md"},
            "start_line": {"type": "integer", "description": "First line, from 1 (default 1)", "default": 1},
            "num_lines": {"type": "integer", "description": "How many lines (default: to the end)"},
        },
        "required": ["path"],
    }

    def __init__(self, memory_manager: Any) -> None:
        super().__init__()
        self.memory_manager = memory_manager

    def execute(self, args: dict[str, Any]) -> Any:
        """Read."""
        result, path = host().result_class(), args.get("path")
        if not isinstance(path, str) or not path.strip():
            return result.fail("Error: path parameter is required")
        root = host().folder(self.memory_manager.config.get_workspace())
        place = path if path.startswith(_ROOTS) or path.startswith("/") else f"memory/{path}"
        try:
            start, count = _whole(args, "start_line", 1), _whole(args, "num_lines", None)
            with self.memory_manager._desk.lend() as memory:
                found = _read(memory, place.removeprefix(f"{root}/"), start or 1, count)
        except PathError as error:
            return result.fail(f"Error: Access denied: {error}")
        except MissingFileError:
            return result.fail(f"Error: File not found: {path}")
        except (VademecumError, ValueError) as error:
            return result.fail(f"Error reading memory file: {error}")
        lines = f"{found.start_line}-{found.end_line}" if found.end_line else "none"
        text = f"{found.text}\n[cut here; ask for the next lines]" if found.truncated else found.text
        return result.success(f"File: {found.path}\nLines: {lines} (total: {found.total_lines})\n\n{text}")


def _read(memory: Memory, path: str, start: int, count: int | None) -> Any:
    if not path.startswith(_ROOTS):
        raise PathError(f"{path!r}: only MEMORY.md and pages below memory/ and knowledge/ can be read")
    return memory.get(path, start=start, lines=count)


def _whole(args: dict[str, Any], name: str, default: int | None) -> int | None:
    """A number from a model, which may write it as a text; 0 and less mean the default."""
    value = args.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{name} = {value!r}: expected a whole number")
    number = int(value)
    return number if number > 0 else default
