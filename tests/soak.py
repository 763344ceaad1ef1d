"""Four processes edit, search, remember and are killed on one memory: ``python soak.py ROOT SECONDS KILLS SEED``.

Prints a JSON object with what was done; fails if, at the end, the index is not the one that a fresh build makes, if a
remembered line is missing or stands twice, or if the process that only reads has grown.
"""

from __future__ import annotations

import atexit
import json
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from embedders import HashedEmbedder
from memories import PATIENT, rows
from sync_killer import WORDS, change
from vademecum import Memory
from vademecum.errors import ConflictError, LockTimeoutError, MatchError, MissingFileError, UsageError
from vademecum.settings import SearchSettings

WRITERS = 3
_EAGER = replace(PATIENT, search=SearchSettings(wait_ms=300))


def write(root: Path, log: Path, seed: int) -> None:
    """Random edits, searches and memories until somebody ends it; what is acknowledged is noted first of all."""
    chance = random.Random(seed)
    number = 0
    with Memory.open(root, settings=_EAGER, embedder=HashedEmbedder(16)) as memory, log.open("a") as acknowledged:
        while True:
            chosen = chance.random()
            number += 1
            mark = f"mark{seed}x{number}"
            with suppress(MissingFileError, MatchError, ConflictError, UsageError, LockTimeoutError, FileNotFoundError):
                if chosen < 0.3:
                    change(root / "topics", chance)
                elif chosen < 0.4:
                    move_folder(root, chance)
                elif chosen < 0.7:
                    memory.remember(f"{mark} {' '.join(chance.choices(WORDS, k=6))}", daily=chance.random() < 0.5)
                    acknowledged.write(f"{mark}\n")
                    acknowledged.flush()
                elif chosen < 0.75:
                    memory.edit(f"topics/{chance.choice(WORDS)}.md", chance.choice(WORDS), "changed", all=True)
                else:
                    look(memory, chance)


def move_folder(root: Path, chance: random.Random) -> None:
    source, target = chance.sample(("a", "b", "d", "e"), 2)
    with suppress(OSError):
        (root / "topics" / source).rename(root / "topics" / target)


def look(memory: Memory, chance: random.Random) -> None:
    """A search answers, and each hit is a part of its page unless that has just been changed."""
    result = memory.search(" ".join(chance.choices(WORDS, k=3)))
    assert result.disabled is None, result.disabled
    for hit in result.hits:
        assert hit.text.strip() and 0 <= hit.score <= 1


def read(root: Path) -> None:
    """Search until told to stop; then print how much memory and how many descriptors were held, over time."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    chance, seen = random.Random(0), []
    with Memory.open(root, settings=_EAGER, embedder=HashedEmbedder(16)) as memory:
        count, due = 0, time.monotonic()
        while not stopped:
            look(memory, chance)
            count += 1
            if time.monotonic() >= due:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                seen.append((pages * resource.getpagesize() // 1024, sum(1 for _ in Path("/proc/self/fd").iterdir())))
                due += 1
    print(json.dumps({"searches": count, "samples": seen}))


def verify(root: Path, fresh: Path, logs: list[Path]) -> dict[str, int]:
    """What holds when everybody has stopped."""
    with Memory.open(root, settings=PATIENT, embedder=HashedEmbedder(16)) as memory:
        memory.sync()
        report = memory.sync()
        assert not report.failed and not report.pending and not report.added and not report.changed, report
        found, health = rows(memory), memory.status().index
        assert health is not None and not health.problems, health
        assert list(health.vectors.values()) == [health.chunks], health
        marks = [line for log in logs for line in log.read_text().split() if line.startswith("mark")]
        pages = [page.read_text() for page in sorted(root.rglob("*.md")) if "topics" not in page.parts]
        counted = Counter(word for page in pages for word in page.split())
        lost = [mark for mark in marks if counted[mark] != 1]
        assert not lost, f"{len(lost)} of {len(marks)} lines are missing or stand twice, such as {lost[:3]}"
    for page in sorted(root.rglob("*.md")):
        copy = fresh / page.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(page.read_bytes())
    with Memory.open(fresh, settings=PATIENT) as built:
        built.sync()
        assert rows(built) == found, "the index is not the one that a fresh build makes"
    for name in ("index.sqlite", "vectors.sqlite", "journal/journal.sqlite"):
        with closing(sqlite3.connect(root / ".vademecum" / name)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], name
    return {"lines": len(marks), "pages": len(pages), "chunks": health.chunks}


def main(root: Path, seconds: float, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    root.mkdir(parents=True)
    (root / "topics").mkdir()
    logs = [root.with_name(f"{root.name}-log{number}") for number in range(WRITERS)]
    for log in logs:
        log.touch()

    def start(role: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, role, str(root), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    reader = start("read")
    writers = [start("write", log, seed + number) for number, log in enumerate(logs)]
    atexit.register(lambda: [process.kill() for process in (reader, *writers)])
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end:
        time.sleep(min(max(0.0, end - time.monotonic()), seconds / (kills + 1)))
        for writer in writers:
            if writer.poll() is not None:
                raise AssertionError(f"a writer ended by itself: {writer.communicate()[1]}")
        if done < kills:
            victim = chance.randrange(WRITERS)
            writers[victim].kill()
            writers[victim].communicate()
            done += 1
            writers[victim] = start("write", logs[victim], seed + 1000 * done + victim)
    for writer in writers:
        writer.kill()
        writer.communicate()
    reader.terminate()
    output, errors = reader.communicate()
    assert reader.returncode == 0, errors
    told = json.loads(output)
    counts = verify(root, root.with_name(f"{root.name}-fresh"), logs)
    sizes = [size for size, _ in told["samples"]]
    files = [count for _, count in told["samples"]]
    third = max(1, len(sizes) // 3)
    early, late = max(sizes[:third]), max(sizes[-third:])
    assert late <= early * 1.5 + 64_000, f"the reader grew from {early} to {late} KB"
    assert max(files[-third:]) <= max(files[:third]) + 32, f"descriptors: {files[0]} to {files[-1]}"
    print(json.dumps({**counts, "kills": done, "searches": told["searches"], "rss_kb": [early, late]}))


if __name__ == "__main__":
    role = sys.argv[1]
    if role == "read":
        read(Path(sys.argv[2]))
    elif role == "write":
        with suppress(KeyboardInterrupt):
            write(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
