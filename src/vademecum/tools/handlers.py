"""What the tools do: one call of `Memory` each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias

from vademecum.errors import UsageError, VademecumError
from vademecum.memory import Memory
from vademecum.tools import answers
from vademecum.tools.answers import Answer
from vademecum.tools.checking import checked
from vademecum.tools.specs import Profile, ToolSpec, tool_specs

_BUDGET = 4_000
_Given: TypeAlias = dict[str, Any]


class Tools:
    """The tools of one memory, for one user and agent. Safe to share between threads; no call ever raises.

    The host opens the memory for the user and agent it acts for, with origin "agent"; no argument of a tool says for
    whom.
    """

    def __init__(
        self,
        memory: Memory | None,
        *,
        profile: Profile = "full",
        max_tokens: int = _BUDGET,
        disabled: str = "it is not open",
    ) -> None:
        """``memory`` is not closed with this. Without one, every tool answers that it is disabled, and why.

        ``max_tokens`` is what one answer recalls at most, by our estimate.
        """
        if type(max_tokens) is not int or max_tokens < 1:
            raise UsageError(f"max_tokens = {max_tokens!r}: expected a whole number of 1 or more")
        self.specs: Mapping[str, ToolSpec] = {tool.name: tool for tool in tool_specs(profile)}
        self._memory = memory
        self._budget = max_tokens
        self._disabled = disabled
        self._owned = False
        self._handlers: dict[str, Callable[[Memory, _Given], Answer]] = {
            "memory_search": self._search,
            "memory_get": self._get,
            "memory_context": self._context,
            "memory_update": self._update,
            "memory_undo": self._undo,
            "knowledge_list": self._list,
            "knowledge_read": self._read,
            "knowledge_write": self._write,
            "knowledge_move": self._move,
            "knowledge_delete": self._delete,
        }

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        *,
        profile: Profile = "full",
        max_tokens: int = _BUDGET,
        **options: Any,
    ) -> Self:
        """Tools over the memory at ``root``, opened on an agent's behalf with the options of `Memory.open`.

        What keeps it from being opened becomes the answer of every call.
        """
        memory, reason = None, ""
        try:
            memory = Memory.open(root, **{"origin": "agent", **options})
        except (VademecumError, OSError) as error:
            reason = str(error)
        tools = cls(memory, profile=profile, max_tokens=max_tokens, disabled=reason)
        tools._owned = True
        return tools

    @property
    def memory(self) -> Memory | None:
        """The memory, None if it could not be opened."""
        return self._memory

    def call(self, name: object, arguments: object = None) -> Answer:
        """Do what a model asked for; ``arguments`` are an object or its JSON."""
        tool = self.specs.get(name) if isinstance(name, str) else None
        if tool is None:
            return answers.failed(UsageError(f"there is no tool {name!r:.60}; there are {', '.join(self.specs)}"))
        if self._memory is None:
            return answers.off(self._disabled)
        try:
            return self._handlers[tool.name](self._memory, checked(tool, arguments))
        except VademecumError as error:
            return answers.failed(error)
        except Exception as error:
            # The model is told: its host must not break for what one call met.
            return answers.failed(VademecumError(f"{tool.name} failed: {type(error).__name__}: {error}"))

    def close(self) -> None:
        """Close the memory, if it was opened by `open`."""
        if self._owned and self._memory is not None:
            self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- memory -------------------------------------------------------------------------------------------------

    def _search(self, memory: Memory, given: _Given) -> Answer:
        return answers.searched(memory.search(**given), self._budget)

    def _get(self, memory: Memory, given: _Given) -> Answer:
        return answers.read(memory.get(**given), self._budget)

    def _context(self, memory: Memory, given: _Given) -> Answer:
        return answers.told(memory.context(**given))

    def _update(self, memory: Memory, given: _Given) -> Answer:
        action, file = given.get("action", "append"), given.get("file", "long_term")
        if action == "append":
            if "content" not in given:
                raise UsageError("append needs content: what to remember. To change something, use action = edit")
            return answers.remembered(memory.remember(given["content"], file=file))
        if "old_text" not in given:
            raise UsageError(f"{action} needs old_text: the text exactly as it stands there")
        every = given.get("all", False)
        if action == "delete":
            return answers.edited(memory.forget(file, given["old_text"], all=every), "deleted")
        if "new_text" not in given:
            raise UsageError("edit needs new_text. To take a text away, use action = delete")
        return answers.edited(memory.edit(file, given["old_text"], given["new_text"], all=every), "changed")

    def _undo(self, memory: Memory, given: _Given) -> Answer:
        return answers.undone(memory.undo(**given))

    # -- knowledge ----------------------------------------------------------------------------------------------

    def _list(self, memory: Memory, given: _Given) -> Answer:
        return answers.listed(memory.knowledge.tree(**given), self._budget)

    def _read(self, memory: Memory, given: _Given) -> Answer:
        excerpt = memory.knowledge.read(**given)
        incoming = memory.knowledge.links(excerpt.path).incoming
        return answers.read(excerpt, self._budget, sorted({link.page for link in incoming}))

    def _write(self, memory: Memory, given: _Given) -> Answer:
        overwrite = given.get("overwrite", False)
        return answers.rearranged(memory.knowledge.create(given["path"], given["content"], overwrite=overwrite))

    def _move(self, memory: Memory, given: _Given) -> Answer:
        return answers.rearranged(memory.knowledge.move(given["paths"], given["category"]))

    def _delete(self, memory: Memory, given: _Given) -> Answer:
        return answers.rearranged(memory.knowledge.delete(given["paths"]))
