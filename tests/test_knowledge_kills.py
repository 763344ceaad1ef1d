"""Killed in the middle of any operation, the knowledge base is whole again at the next call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store_support import python

pytest.importorskip("markdown_it", reason="the package markdown-it-py is not installed (vademecum[knowledge])")

STRESS = bool(os.environ.get("VADEMECUM_STRESS"))
STEP = 17

# A child is killed just before its n-th change of a file or folder, for each n until it survives; another one then
# opens the memory. Both are forked from one process that has everything imported and no threads.
_CODE = """
import os, shutil, signal, sys, traceback
from pathlib import Path
from vademecum import Memory
import vademecum.knowledge.base, vademecum.knowledge.parser, filelock, sqlite3


PAGES = {
    "MEMORY.md": "[e](knowledge/finance/etf.md) [[bond]] [x](knowledge/metals/gold.md)",
    "knowledge/index.md": "# Mine\\n\\n## finance\\n\\n- [ETFs](finance/etf.md): my words\\n"
    "- [Bonds](finance/bond.md)\\n\\n## metals\\n\\n- [Gold](metals/gold.md)\\n",
    "knowledge/finance/etf.md": "# ETFs\\n\\n[g](../metals/gold.md) [[finance/bond]]",
    "knowledge/finance/bond.md": "# Bonds\\n\\n[[finance/etf]]",
    "knowledge/metals/gold.md": "# Gold\\n\\n[e](../finance/etf.md)",
}
OPERATIONS = {
    "move": lambda knowledge: knowledge.move(["finance/etf.md", "finance/bond.md"], "funds/x"),
    "rename": lambda knowledge: knowledge.rename("finance", "money"),
    "delete": lambda knowledge: knowledge.delete("finance/etf.md"),
    "create": lambda knowledge: knowledge.create("finance/new.md", "# New"),
    "replace": lambda knowledge: knowledge.create("finance/etf.md", "# Other", overwrite=True),
}
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}

def in_child(act):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush(); sys.stderr.flush()
            os._exit(code)
    return os.waitpid(pid, 0)[1]

def make(root):
    shutil.rmtree(root, ignore_errors=True)
    for path, text in PAGES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

def operate(root, name, nth):
    count = 0
    def hook(event, arguments):
        nonlocal count
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or writes:
            count += 1
            if count == nth:
                os.kill(os.getpid(), signal.SIGKILL)
    with Memory.open(root) as memory:
        knowledge = memory.knowledge
        knowledge.tree()
        sys.addaudithook(hook)
        OPERATIONS[name](knowledge)

def verify(root, name):
    with Memory.open(root) as memory:
        titles = sorted(page.title for page in pages(memory.knowledge.tree().root))
        checked = memory.knowledge.check()
        log = (root / "knowledge" / "log.md")
        lines = log.read_text().count("\\n- ") if log.exists() else 0
        index = (root / "knowledge" / "index.md").read_text()
        assert not checked.unlisted and not checked.stale, checked
        assert not list(root.glob(".vademecum/knowledge-pending*"))
        old, new = ["Bonds", "ETFs", "Gold"], dict(
            delete=["Bonds", "Gold"], create=["Bonds", "ETFs", "Gold", "New"], replace=["Bonds", "Gold", "Other"]
        ).get(name, ["Bonds", "ETFs", "Gold"])
        assert titles in (old, new), titles
        there = {p.parent.name for p in root.glob("knowledge/**/*.md") if p.stem in ("etf", "bond")}
        moved = there <= {"x", "money"}
        assert len(there) == 1, there  # never half
        done = moved if name in ("move", "rename") else titles == new
        assert lines == done, (lines, done)
        if name != "delete":
            assert not checked.broken, checked
        assert (": my words" in index) == (name != "delete" or not done)
        paths = {hit.path for hit in memory.search("ETFs bonds gold other new", max_results=20)}
        assert all((root / path).exists() for path in paths)

def pages(category):
    yield from category.pages
    for inner in category.categories:
        yield from pages(inner)

root, name, nth, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
kills = 0
while True:
    make(root)
    status = in_child(lambda: operate(root, name, nth))
    killed = os.WIFSIGNALED(status)
    assert killed or status == 0, (nth, status)
    assert in_child(lambda: verify(root, name)) == 0, f"after kill {nth}"
    if not killed:
        break
    kills += 1
    nth += step
print(kills)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.stress
@pytest.mark.parametrize("first", range(1, STEP + 1) if STRESS else [2])
@pytest.mark.parametrize("operation", ["move", "rename", "delete", "create", "replace"])
def test_an_operation_that_is_killed_at_any_moment_ends_whole(tmp_path: Path, operation: str, first: int) -> None:
    assert int(python(_CODE, tmp_path / "notes", operation, first, STEP).stdout) >= 1
