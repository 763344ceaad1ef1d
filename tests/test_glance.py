"""The quick look before a search: it misses nothing that a scan would see, and spares most scans."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from memories import OpenMemory, paths
from vademecum import Memory
from vademecum.errors import UsageError
from vademecum.kernels import folders_reference
from vademecum.store.layout import detect
from vademecum.store.places import Places
from vademecum.store.scan import Scan

try:
    from vademecum._native import folders
except ImportError:
    if os.environ.get("VADEMECUM_KERNELS") == "native":
        raise
    folders = None

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(os.scandir not in os.supports_fd, reason="folders cannot be opened here: every look is a scan"),
]

needs_native = pytest.mark.skipif(folders is None, reason="the native core is not built")


@pytest.fixture(params=[pytest.param("native", marks=needs_native), "reference"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    return folders if request.param == "native" else folders_reference


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for path in (
        "MEMORY.md",
        "UPPER.MD",
        "日记.md",
        "memory/2026-01-11.md",
        "knowledge/a/b.md",
        "TALK.JSONL",
        "messages/chat_history.json",
        "memory/long-term/index.db",
        "memory/long-term/index.db-wal",
        "not a transcript.json",
        "l",
        "photo.png",
        ".hidden",
    ):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "page.md").write_text("x")
    (root / "to_page.md").symlink_to(tmp_path / "elsewhere" / "page.md")
    (root / "to_folder").symlink_to(tmp_path / "elsewhere")
    (root / "to_nothing").symlink_to(tmp_path / "nothing")
    os.mkfifo(root / "pipe.md")
    os.close(os.open(os.fsencode(root) + b"/\xff.md", os.O_CREAT))
    return root


def look(twin: ModuleType, root: Path) -> bytes | None:
    listed = Places(detect(root)).scan().folders
    answer = twin.glance(b"".join(os.fsencode(folder) + b"\0" for folder in listed))
    assert answer is None or isinstance(answer, bytes)
    return answer


def as_it_was(file: Path, change: Callable[[], object]) -> None:
    """Change a file and set its times back."""
    before = file.stat()
    change()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(file: Path) -> None:
    copy = file.with_name(".copy")
    copy.write_bytes(file.read_bytes())
    os.utime(copy, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    copy.replace(file)


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "a page was written": lambda root: (root / "MEMORY.md").write_text("other"),
    "with as many bytes, and its time set back": lambda root: as_it_was(
        root / "MEMORY.md", lambda: (root / "MEMORY.md").write_text("MEMORY.dm")
    ),
    "replaced by the same": lambda root: replaced(root / "knowledge/a/b.md"),
    "a transcript was appended to": lambda root: (root / "TALK.JSONL").write_text("x" * 99),
    "a new page": lambda root: (root / "knowledge/new.md").write_text("x"),
    "a new folder": lambda root: (root / "knowledge/new").mkdir(),
    "a page is gone": lambda root: (root / "UPPER.MD").unlink(),
    "renamed": lambda root: (root / "UPPER.MD").rename(root / "LOWER.MD"),
    "a page became a folder": lambda root: ((root / "UPPER.MD").unlink(), (root / "UPPER.MD").mkdir()),
    "a mode": lambda root: (root / "MEMORY.md").chmod(0o600),
    "another name": lambda root: (root / "memory/hard.md").hardlink_to(root / "MEMORY.md"),
    "the rules of what to ignore": lambda root: (root / ".vademecumignore").write_text("*.MD\n"),
    "a link leads elsewhere": lambda root: (
        (root / "to_page.md").unlink(),
        (root / "to_page.md").symlink_to(root / "MEMORY.md"),
    ),
    "what a link leads to became a folder": lambda root: (root.parent / "nothing").mkdir(),
    "another folder under the same name": lambda root: (
        (root / "knowledge/a").rename(root.parent / "old"),
        (root / "knowledge/a").mkdir(),
        (root.parent / "old/b.md").rename(root / "knowledge/a/b.md"),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_a_scan_sees_changes_the_look(twin: ModuleType, root: Path, change: Callable[[Path], object]) -> None:
    listed = Places(detect(root)).scan().folders
    before = twin.glance(b"".join(os.fsencode(folder) + b"\0" for folder in listed))
    assert before is not None
    change(root)
    after = twin.glance(b"".join(os.fsencode(folder) + b"\0" for folder in listed))
    assert (after == before) == (change is CHANGES["nothing"])


@needs_native
def test_both_twins_write_the_same_bytes(root: Path) -> None:
    for number in range(300):
        (root / f"knowledge/{number * 7919 % 1000} ü.md").write_text("x" * number)
    assert look(folders, root) == look(folders_reference, root) != b""


def test_what_cannot_be_looked_at_is_no_answer(twin: ModuleType, tmp_path: Path) -> None:
    assert twin.glance(b"") == b""
    assert twin.glance(os.fsencode(tmp_path / "missing") + b"\0") is None
    (tmp_path / "file").touch()
    assert twin.glance(os.fsencode(tmp_path) + b"\0" + os.fsencode(tmp_path / "file") + b"\0") is None
    with pytest.raises(UsageError):
        twin.glance(os.fsencode(tmp_path))


# --- in searches ---


class Scans:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scans]:
    counted, original = Scans(), Places.scan

    def scan(places: Places, *arguments: object) -> Scan:
        counted.count += 1
        return original(places, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Places, "scan", scan)
    monkeypatch.setattr("vademecum.store.scan.SETTLE_S", -1.0)
    return counted


def at_rest(memory: Memory) -> None:
    """Look often enough for the quick look to know this state."""
    for _ in range(3):
        assert memory.search("fox").fresh


def test_a_folder_at_rest_is_not_scanned_again(open_memory: OpenMemory, scans: Scans) -> None:
    memory = open_memory({f"{number}/page.md": f"fox number {number}\n" for number in range(20)})
    at_rest(memory)
    scans.count = 0
    for _ in range(5):
        assert memory.search("fox").fresh
    assert scans.count == 0


def test_random_changes_are_found_by_the_next_search(open_memory: OpenMemory, scans: Scans) -> None:
    memory = open_memory({f"{number}/page.md": "fox\n" for number in range(4)})
    draw = random.Random(3)
    for number in range(15):
        at_rest(memory)
        pages = sorted(file for file in memory.root.rglob("*.md"))
        file = draw.choice([*pages, memory.root / f"new{number}/page.md"])
        match draw.choice(["write", "write", "delete", "rename"]):
            case "delete" if len(pages) > 2 and file.exists():
                file.unlink()
            case "rename" if file.exists():
                file.rename(file.with_name(f"other{number}.md"))
            case _:
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"fox unique{number}\n")
        found = memory.search("fox", max_results=50)
        assert found.fresh
        assert sorted(paths(found)) == sorted(
            file.relative_to(memory.root).as_posix() for file in memory.root.rglob("*.md")
        )
    assert scans.count > 15


def test_a_change_of_the_index_by_somebody_else_is_a_reason_to_scan(open_memory: OpenMemory, scans: Scans) -> None:
    memory = open_memory({"page.md": "fox\n"})
    at_rest(memory)
    memory._core.open_index().delete(["page.md"])
    assert paths(memory.search("fox")) == ["page.md"]


def test_an_extra_folder_that_leads_elsewhere_is_scanned_again(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.md").write_text(f"fox {name}\n")
    (tmp_path / "extra").symlink_to(tmp_path / "one")
    (tmp_path / "own/memory").mkdir(parents=True)
    places = Places(detect(tmp_path / "own"), {"x": tmp_path / "extra"})
    found = places.scan()
    before = places.glance(found)
    assert before == places.glance(found) is not None
    (tmp_path / "extra").unlink()
    (tmp_path / "extra").symlink_to(tmp_path / "two")
    assert places.glance(found) != before


def test_a_scan_that_left_something_out_has_no_quick_look(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    places = Places(detect(tmp_path), {"x": tmp_path.parent / "missing"})
    found = places.scan()
    assert found.unreadable == ("@x",)
    assert places.glance(found) is None
