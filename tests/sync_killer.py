"""Kill syncs at random statements and look at what the next one makes of it: ``sync_killer.py ROOT KILLS SEED``.

A process of its own, because it forks: children that need no start of an interpreter die in the middle of their work.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import traceback
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from embedders import HashedEmbedder
from memories import PATIENT, rows
from vademecum import Memory
from vademecum.sqlite import connection as connections

WORDS = ("anchor", "birch", "copper", "dune", "ember", "fjord", "granite", "harbour", "island", "juniper", "kelp")


class Countdown:
    """Dies at the statement of that number, counted over all connections of the process."""

    left = 0

    @classmethod
    def tick(cls) -> None:
        if cls.left:
            cls.left -= 1
            if not cls.left:
                os.kill(os.getpid(), signal.SIGKILL)


class Mortal(connections.Connection):
    """A connection each of whose statements may be the last."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        Countdown.tick()
        return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        Countdown.tick()
        return super().executemany(*arguments)


def change(root: Path, chance: random.Random) -> None:
    """Some edits of a person: pages come, change, move and go."""
    for _ in range(chance.randrange(1, 6)):
        page = root / chance.choice(("", "a/", "b/c/")) / f"{chance.choice(WORDS)}.md"
        chosen = chance.random()
        if chosen < 0.6 or not page.exists():
            page.parent.mkdir(parents=True, exist_ok=True)
            lines = [f"- {' '.join(chance.choices(WORDS, k=8))}" for _ in range(chance.randrange(1, 60))]
            page.write_text(f"# {chance.choice(WORDS)}\n\n" + "\n".join(lines) + "\n")
        elif chosen < 0.8:
            page.unlink()
        else:
            page.rename(page.with_name(f"{chance.choice(WORDS)}.md"))


def forked(work: Any) -> int:
    """The wait status of a child that does ``work``."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitpid(child, 0)[1]


def sync(root: Path, at: int = 0) -> None:
    """Sync, and die at statement ``at``."""
    connections.Connection = Mortal  # type: ignore[misc]
    connections.connect.__globals__["Connection"] = Mortal
    Countdown.left = at
    with Memory.open(root, settings=PATIENT, embedder=HashedEmbedder(16)) as memory:
        memory.sync()


def verify(root: Path, fresh: Path) -> None:
    """After the next sync the index is the one that a fresh build makes, vectors included, and every file is sound."""
    with Memory.open(root, settings=PATIENT, embedder=HashedEmbedder(16)) as memory:
        report = memory.sync()
        assert not report.failed and not report.pending, report
        found = rows(memory)
        health = memory.status().index
        assert health is not None and not health.problems, health
        assert list(health.vectors.values()) == [health.chunks], health
    for page in sorted(root.rglob("*.md")):
        copy = fresh / page.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(page.read_bytes())
    with Memory.open(fresh, settings=PATIENT) as built:
        built.sync()
        assert rows(built) == found
    for name in ("index.sqlite", "vectors.sqlite"):
        with closing(sqlite3.connect(root / ".vademecum" / name)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], name


def main(root: Path, kills: int, seed: int) -> None:
    """Print how many children really died."""
    chance = random.Random(seed)
    root.mkdir()
    change(root, chance)
    died = 0
    for number in range(kills):
        change(root, chance)
        status = forked(partial(sync, root, chance.randrange(1, 150)))
        died += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or status == 0, f"seed {seed}, kill {number}: status {status}"
        if number % 5 == 4 or number == kills - 1:
            fresh = root.with_name(f"fresh{number}")
            assert forked(partial(verify, root, fresh)) == 0, f"seed {seed}: wrong after kill {number}"
    print(died)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
