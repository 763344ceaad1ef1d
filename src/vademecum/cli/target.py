"""Which memory a command is about."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.config import environment
from vademecum.errors import UsageError

if TYPE_CHECKING:
    from vademecum.memory import Memory


def open_memory(args: Namespace) -> Memory:
    """The memory that the command is about, for the user and agent it acts for. Raises UsageError if there is none."""
    from vademecum.memory import Memory

    return Memory.open(memory_root(args), user=args.user, agent=args.agent, create=False)


def memory_root(args: Namespace) -> Path:
    """The folder named, else the nearest memory above the current folder; raises UsageError if there is none."""
    from vademecum.store.root import find_root

    named = named_root(args)
    if named is not None:
        root = named_folder(named)
        if not root.is_dir():
            raise UsageError(f"{root}: there is no such folder; `vademecum init {root}` makes a memory there")
        return root
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder is gone; name the memory with --root DIR") from None
    found = find_root(here)
    if found is None:
        raise UsageError(
            f"{here} is not in a memory: `vademecum init` makes one here, --root DIR or VADEMECUM_ROOT name another"
        )
    return found


def named_root(args: Namespace) -> str | None:
    """What --root says, else VADEMECUM_ROOT; an empty variable counts as unset."""
    named: str | None = args.root
    return named if named is not None else environment().get("VADEMECUM_ROOT") or None


def named_folder(name: str) -> Path:
    """The folder that a person typed; raises UsageError for an empty name."""
    from vademecum.memory.arguments import root_folder

    if not name.strip():
        raise UsageError("the folder's name is empty; give one, or leave it out")
    return root_folder(name)
