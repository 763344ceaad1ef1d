"""Systems that keep Markdown: their folders become ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vademecum.errors import UnreadableFileError, UsageError
from vademecum.store.files import decode
from vademecum.store.layout import leading_date
from vademecum.transfer.found import Found, Page, Skipped

_LARGEST = 16 * 1024 * 1024


def openclaw(source: Path) -> Iterator[Found]:
    """An OpenClaw workspace: MEMORY.md, memory/ and the pages about agent and user beside it."""
    folder = _folder(source)
    for path in _markdown(folder):
        yield from _page(folder, path, path)


def memsearch(source: Path) -> Iterator[Found]:
    """A memsearch project (``.memsearch/memory``) or any folder that it indexes."""
    folder = _folder(source)
    inner = folder / ".memsearch" / "memory"
    yield from _dated(inner if inner.is_dir() else folder, "memsearch")


def memweave(source: Path) -> Iterator[Found]:
    """A memweave workspace: MEMORY.md and memory/, sources of other kinds in folders of their own."""
    folder = _folder(source)
    for path in _markdown(folder):
        yield from _page(folder, path, path)


def claude_code(source: Path) -> Iterator[Found]:
    """Claude Code's auto-memory: a ``memory`` folder of one project, or ``~/.claude`` with those of all."""
    folder = _folder(source)
    projects = sorted(folder.glob("projects/*/memory")) or sorted(folder.glob("*/memory")) or [folder]
    for memory in projects:
        # The project's folder is named by its path, "-home-me-work".
        name = memory.parent.name.strip("-.") if memory.name == "memory" else memory.name.strip("-.")
        for path in _markdown(memory):
            yield from _page(memory, path, f"claude-code/{name or 'project'}/{path}")


def basic_memory(source: Path) -> Iterator[Found]:
    """A basic-memory project: its notes become pages of the knowledge base."""
    folder = _folder(source)
    for path in _markdown(folder):
        target = path if "/" in path else f"notes/{path}"
        yield from _page(folder, path, f"knowledge/{target}")


def _dated(folder: Path, name: str) -> Iterator[Found]:
    """Daily pages among the dailies, all others in a folder of their own."""
    for path in _markdown(folder):
        base = path.rpartition("/")[2]
        daily = leading_date(base) is not None
        yield from _page(folder, path, f"memory/{base}" if daily else f"{name}/{path}")


def _folder(source: Path) -> Path:
    if not source.is_dir():
        raise UsageError(f"{source}: expected a folder")
    return source


def _markdown(folder: Path) -> Iterator[str]:
    """Relative paths of the pages below ``folder``, sorted; no link is followed, nothing hidden entered."""
    found: list[str] = []
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        found += [
            (Path(here) / name).relative_to(folder).as_posix()
            for name in files
            if name.lower().endswith(".md") and not name.startswith(".")
        ]
    yield from sorted(found)


def _page(folder: Path, path: str, target: str) -> Iterator[Found]:
    file = folder / path
    if file.is_symlink():
        yield Skipped(path, "is a symbolic link")
        return
    try:
        if file.stat().st_size > _LARGEST:
            yield Skipped(path, f"has more than {_LARGEST >> 20} MB")
            return
        text = decode(file.read_bytes(), path).text
    except OSError as error:
        yield Skipped(path, f"cannot be read: {error.strerror}")
    except UnreadableFileError as error:
        yield Skipped(path, str(error))
    else:
        yield Page(target, text) if text.strip() else Skipped(path, "is empty")
