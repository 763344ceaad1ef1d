"""The guard: no path from outside leads out of the root, and every Markdown page inside it can be named."""

from __future__ import annotations

import os
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vademecum.errors import PathError, UsageError
from vademecum.store.paths import resolve

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX names and links")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "memory").mkdir(parents=True)
    (root / ".vademecum").mkdir()
    (root / "MEMORY.md").write_text("inside")
    (tmp_path / "secret.md").write_text("outside")
    (tmp_path / "outside").mkdir()
    return root


@pytest.mark.parametrize(
    "path",
    ["MEMORY.md", "./MEMORY.md", "memory//2026-01-11.md", "not/there/yet.md", "..notes.md", "a...md", "%2e%2e.md",
     "memory/..notes.md", "UPPER.MD", "a b.md", "日记.md", "~.md", "-x.md", "a:b.md", "x.md.md"],
)  # fmt: skip
def test_a_page_inside_the_root_is_found_whether_or_not_it_exists(root: Path, path: str) -> None:
    location = resolve(root, path)
    assert location.file == root.resolve() / location.path
    assert location.path == Path(path).as_posix()


@pytest.mark.parametrize(
    "path",
    ["", " ", "/", ".", "..", "../secret.md", "memory/../../secret.md", "memory/../MEMORY.md", "MEMORY.md/..",
     "/etc/passwd", "/etc/motd.md", "memory", "index.sqlite", ".env", ".md", "memory/.md", ".vademecum/x.md",
     ".git/x.md", "a/.obsidian/x.md", "MEMORY.md\0", "\0", "memory/\0.md", "x.txt", "x.md.", "x.mdx", "x.md ",
     "a\\b.md", "..\\secret.md", "\udce9.md", "n" * 253 + ".md", "d" * 300 + "/x.md"],
)  # fmt: skip
def test_everything_else_is_refused_by_name(root: Path, path: str) -> None:
    with pytest.raises(PathError) as caught:
        resolve(root, path)
    assert repr(path)[:20] in str(caught.value)


@pytest.mark.parametrize("path", [None, 7, b"MEMORY.md", Path("MEMORY.md")])
def test_a_path_is_a_text(root: Path, path: object) -> None:
    with pytest.raises(UsageError, match="expected a text"):
        resolve(root, path)  # type: ignore[arg-type]


def test_an_absolute_path_is_taken_only_inside_the_real_root(root: Path) -> None:
    assert resolve(root, str(root / "memory" / "x.md")).path == "memory/x.md"
    for outside in (root.parent / "secret.md", f"{root}-twin/x.md", f"{root}/../secret.md", root):
        with pytest.raises(PathError):
            resolve(root, str(outside))


@posix
def test_links_out_of_the_root_are_refused_wherever_they_stand(root: Path) -> None:
    (root / "link.md").symlink_to(root.parent / "secret.md")
    (root / "away").symlink_to(root.parent / "outside")
    (root / "memory" / "up").symlink_to("../..")
    (root / "loop").symlink_to("loop")
    for path in ("link.md", "away/x.md", "away/new/x.md", "memory/up/secret.md", "memory/up/root/../secret.md"):
        with pytest.raises(PathError):
            resolve(root, path)
    (root / "dangling.md").symlink_to(root.parent / "not there.md")
    with pytest.raises(PathError, match="symbolic link"):
        resolve(root, "dangling.md")
    with pytest.raises(PathError, match="symbolic link"):
        (root / "inner.md").symlink_to("MEMORY.md")
        resolve(root, "inner.md")


@posix
def test_a_link_between_folders_of_the_root_is_followed_to_the_real_place(root: Path) -> None:
    (root / "memory" / "users" / "bob").mkdir(parents=True)
    (root / "pub").mkdir()
    (root / "open").symlink_to("pub")
    assert resolve(root, "open/x.md").path == "pub/x.md"
    (root / "users").symlink_to("memory/users")
    assert resolve(root, "users/bob/x.md").path == "memory/users/bob/x.md"
    (root / "door").symlink_to(".vademecum")
    with pytest.raises(PathError, match="hidden"):
        resolve(root, "door/x.md")


@posix
@pytest.mark.parametrize(
    ("link", "target", "path", "found"),
    [
        ("memory/users/alice", "../../pub", "memory/users/alice/MEMORY.md", "pub/MEMORY.md"),
        ("memory/users/alice", "bob", "memory/users/alice/new/x.md", "memory/users/bob/new/x.md"),
        ("users", "pub", "users/alice/x.md", "pub/alice/x.md"),
        ("open", "memory/users/bob", "open/MEMORY.md", "memory/users/bob/MEMORY.md"),
        ("memory/agents", "users", "memory/agents/bob/x.md", "memory/users/bob/x.md"),
    ],
)
def test_no_link_leads_from_one_scope_to_another(root: Path, link: str, target: str, path: str, found: str) -> None:
    (root / "memory" / "users" / "bob").mkdir(parents=True)
    (root / "pub").mkdir()
    (root / link).symlink_to(target)
    outside = root.parent / "way in"
    outside.symlink_to(root)
    for named in (path, str(root / path), str(outside / path)):
        with pytest.raises(PathError) as caught:
            resolve(root, named)
        assert repr(path) in str(caught.value)
        assert repr(found) in str(caught.value)


@pytest.mark.parametrize(
    ("path", "limit"),
    [("a/" * 2_000 + "x.md", "255"), ("a/" * 255 + "x.md", "255"), ("a/" * 100_000 + "x.md", "4096"),
     (("d" * 200 + "/") * 21 + "x.md", "4096"), ("/a" * 2_000 + "/x.md", "255")],
)  # fmt: skip
def test_a_path_that_no_system_would_take_is_refused_before_the_disk_is_looked_at(
    root: Path, path: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: looked.append(folder) or real(folder))
    with pytest.raises(PathError, match=f"at most {limit}") as caught:
        resolve(root, path)
    assert len(str(caught.value)) < 200
    assert looked == []


def test_folders_that_do_not_exist_cost_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: looked.append(path) or real(path))
    assert resolve(root, "memory/" + "a/" * 253 + "x.md").path == "memory/" + "a/" * 253 + "x.md"
    assert len(looked) == 2, "the root and the one folder that is there"


@posix
def test_a_root_that_is_a_link_is_followed(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert resolve(link, "MEMORY.md").file == root.resolve() / "MEMORY.md"
    assert resolve(link, str(link / "MEMORY.md")).path == "MEMORY.md"


@pytest.mark.skipif(sys.platform == "darwin", reason="the file system normalises names itself")
def test_a_name_is_found_under_either_normalisation_and_kept_as_on_disk(root: Path) -> None:
    stored = unicodedata.normalize("NFD", "Jürgen Müller")
    (root / stored).mkdir()
    (root / stored / unicodedata.normalize("NFC", "é.md")).write_text("x")
    asked = unicodedata.normalize("NFC", "Jürgen Müller") + "/" + unicodedata.normalize("NFD", "é.md")
    assert resolve(root, asked).file.read_text() == "x"
    assert resolve(root, asked).path == f"{stored}/{unicodedata.normalize('NFC', 'é.md')}"
    (root / stored / unicodedata.normalize("NFD", "é.md")).write_text("exact")
    assert resolve(root, asked).file.read_text() == "exact"


_PIECES = st.sampled_from(
    ["..", ".", "", "/", "~", "\\", "memory", "link", "link.md", "x.md", "..x.md", "MEMORY.md", ".vademecum", "%2e%2e",
     "secret.md", "outside", "\0", "up", "C:", "file://", "．．"]
)  # fmt: skip


@given(
    st.one_of(
        st.lists(_PIECES, max_size=6).map("/".join),
        st.text(max_size=12).map(lambda text: text + ".md"),
        st.lists(_PIECES, max_size=4).map(lambda pieces: "/" + "".join(pieces)),
    )
)
@example("up/secret.md")
@example("link/up/secret.md")
def test_no_path_whatever_leads_out_of_the_root(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    top = tmp_path_factory.getbasetemp() / "guard"
    root = top / "root"
    if not root.exists():
        root.mkdir(parents=True)
        (top / "secret.md").write_text("outside")
        (root / "up").symlink_to("..")
        (root / "link").symlink_to("/")
        (root / "link.md").symlink_to("../secret.md")
    try:
        location = resolve(root, path)
    except PathError:
        return
    assert Path(os.path.realpath(location.file)).is_relative_to(root.resolve())
    assert Path(os.path.realpath(location.file)) == location.file
    assert location.path.lower().endswith(".md")
    assert not location.path.startswith(("/", "../"))
