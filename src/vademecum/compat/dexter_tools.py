"""Dexter's three tools for the MCP server: its names and arguments, and its envelope as the text of each answer."""

from __future__ import annotations

import json
from dataclasses import replace

from vademecum.compat.dexter import TOOL_NAMES, DexterMemory, call_tool
from vademecum.tools import Tools
from vademecum.tools.answers import Answer
from vademecum.tools.specs import ToolSpec, tool_specs

#: What our arguments are called there; the others are not known there.
_ARGUMENTS = {
    "memory_search": {"query": "query", "max_results": "max_results", "since": "since", "until": "until"},
    "memory_get": {"path": "path", "start": "from", "lines": "lines"},
    "memory_update": {name: name for name in ("content", "action", "file", "old_text", "new_text")},
}


class DexterTools(Tools):
    """The tools of a ``.dexter`` folder. No call ever raises."""

    def __init__(self, dexter: DexterMemory) -> None:
        """``dexter`` is closed with this."""
        memory = dexter.memory if dexter.available else None
        super().__init__(memory, profile="memory", disabled=dexter.unavailable_reason or "")
        self.specs = {spec.name: _renamed(spec) for spec in tool_specs("memory") if spec.name in TOOL_NAMES}
        self._dexter = dexter

    def call(self, name: object, arguments: object = None) -> Answer:
        """See `Tools.call`; the answer is Dexter's envelope."""
        envelope, worked = call_tool(self._dexter, name, {} if arguments is None else arguments)
        return Answer(json.dumps(envelope, ensure_ascii=False), envelope, error=not worked)

    def close(self) -> None:
        """Close the memory."""
        self._dexter.close()


def _renamed(spec: ToolSpec) -> ToolSpec:
    names = _ARGUMENTS[spec.name]
    notes = {
        language: {names[name]: text for name, text in known.items() if name in names}
        for language, known in spec.notes.items()
    }
    arguments = {names[name]: schema for name, schema in spec.arguments.items() if name in names}
    return replace(spec, arguments=arguments, notes=notes)
