"""Kill writers at random moments and look at what they leave. Run as ``python killer.py ROOT KILLS SEED``.

A process of its own, because it forks: children that need no start of an interpreter die in the middle of their work.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from vademecum.errors import ConflictError, UsageError
from vademecum.store.edit import edit
from vademecum.store.files import Document, append, move, remove, rewrite
from vademecum.store.journal import Journal
from vademecum.store.paths import resolve
from vademecum.store.undo import log, undo

PAGES = ("MEMORY.md", "memory/2026-01-11.md", "knowledge/a/b.md")


def sealed(lines: list[str]) -> str:
    """A text whose first line is the hash of the others, so that half of it is seen to be half."""
    body = "".join(f"{line}\n" for line in lines)
    return f"# {sha256(body.encode()).hexdigest()}\n{body}"


def work(root: Path, chance: random.Random) -> None:
    """Change pages in every way there is, for ever; each leaves a sealed page or none."""
    while True:
        page = resolve(root, chance.choice(PAGES))
        chosen = chance.random()
        if chosen < 0.7 or not page.file.exists():
            rewrite(root, page, lambda old: _grown(old, chance))
        elif chosen < 0.8:
            move(root, page, resolve(root, f"moved/{chance.random()}.md"))
        elif chosen < 0.9:
            remove(root, page)
        else:
            with suppress(ConflictError, UsageError):
                undo(root, lambda _: True, None, "person")


def _grown(old: Document | None, chance: random.Random) -> Document:
    lines = old.text.split("\n")[1:-1] if old else []
    return Document(sealed([*lines[-40:], f"- {chance.random()} " + "word " * chance.randrange(400)]))


def look(root: Path) -> None:
    """Every page is whole, and is what the journal says."""
    entries = log(root, lambda _: True)
    latest: dict[str, str | None] = {}
    for entry in reversed(entries):
        if entry.moved_from is not None:
            latest[entry.moved_from] = None
        latest[entry.path] = entry.after
    for path, after in latest.items():
        file = root / path
        assert file.exists() == (after is not None), (path, after)
        if after is not None and path != "first.md":
            data = file.read_bytes()
            first, _, body = data.partition(b"\n")
            assert first == b"# " + sha256(body).hexdigest().encode(), f"{path}: half a page, or an empty one"
            assert sha256(data).hexdigest() == after, f"{path} is not what the journal says"
    with Journal(root) as journal:
        for entry in entries[:5]:
            for content in filter(None, (entry.before, entry.after)):
                journal.content(content)


def main(root: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    append(root, resolve(root, "first.md"), "everything is imported now, which takes longer than most children live")
    for number in range(kills):
        child = os.fork()
        if child == 0:
            work(root, random.Random(seed * 1000 + number))
        time.sleep(chance.random() * 0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        look(root)
    append(root, resolve(root, "last.md"), "the lock is free")
    edit(root, "last.md", "free", "still free")
    for page in PAGES:
        append(root, resolve(root, page), "a write clears what the killed left in its folder")
    found = [path for path in root.rglob("*") if path.is_file() and ".vademecum/" not in path.as_posix()]
    assert all(path.suffix == ".md" for path in found), "scraps are left"
    print(log(root, lambda _: True)[0].id)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
