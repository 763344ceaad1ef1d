"""Memories come from other systems whole, once and over nothing; archives go out and come back the same."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vademecum.cli.transfer
from embedders import HashedEmbedder
from memories import PATIENT, rows, texts, write
from vademecum import Memory
from vademecum.cli import main
from vademecum.errors import StoreError, UsageError
from vademecum.transfer import KINDS, export_archive, export_chunks, import_memory, restore_archive

CHATGPT = [
    {
        "title": "Bikes",
        "conversation_id": "c1",
        "create_time": 1_770_000_000.5,
        "current_node": "d",
        "mapping": {
            "a": {"message": None, "parent": None},
            "b": {
                "message": {
                    "author": {"role": "user"},
                    "content": {"parts": ["Which bike?"]},
                    "create_time": 1_770_000_001,
                },
                "parent": "a",
            },
            "c": {
                "message": {"author": {"role": "assistant"}, "content": {"parts": ["A red one."]}},
                "parent": "b",
            },
            "d": {
                "message": {"author": {"role": "assistant"}, "content": {"parts": ["The gravel bike."]}},
                "parent": "b",
            },
        },
    },
    {"title": "broken"},
]
CLAUDE = [
    {
        "uuid": "u1",
        "name": "Trips",
        "created_at": "2026-02-01T10:00:00Z",
        "chat_messages": [
            {"sender": "human", "text": "Where to?", "created_at": "2026-02-01T10:00:01Z"},
            {"sender": "assistant", "content": [{"type": "text", "text": "To the fjord."}], "text": "x"},
        ],
    }
]
MEM0 = {
    "results": [
        {"id": "1", "memory": "Likes green tea", "user_id": "anna", "created_at": "2026-01-02T00:00:00Z"},
        {"id": "2", "memory": "Has a dog", "user_id": "anna", "created_at": "2026-01-01T00:00:00Z"},
        {"id": "3", "memory": " "},
    ]
}
SOURCES: dict[str, tuple[dict[str, str | bytes], str, str]] = {
    # files, what to name, a question that finds something of them
    "openclaw": ({"MEMORY.md": "- walrus rule\n", "memory/2026-01-02.md": "- a day\n"}, ".", "walrus"),
    "memsearch": ({".memsearch/memory/2026-01-03.md": "- walrus day\n", "x.md": "no"}, ".", "walrus"),
    "memweave": ({"MEMORY.md": "- walrus\n", "memory/2026-01-04.md": "- b\n"}, ".", "walrus"),
    "claude-code": ({"projects/-home-me-work/memory/MEMORY.md": "- walrus build\n"}, ".", "walrus"),
    "basic-memory": ({"people/anna.md": "# Anna\n\n- [fact] walrus #pet\n", "top.md": "- t\n"}, ".", "walrus"),
    "chatgpt": ({"conversations.json": json.dumps(CHATGPT)}, "conversations.json", "gravel bike"),
    "claude": ({"conversations.json": json.dumps(CLAUDE)}, "conversations.json", "fjord"),
    "mem0": ({"memories.json": json.dumps(MEM0)}, "memories.json", "green tea"),
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "notes", settings=PATIENT) as opened:
        yield opened


def source(tmp_path: Path, kind: str) -> Path:
    files, name, _ = SOURCES[kind]
    write(tmp_path / "theirs", files)
    return tmp_path / "theirs" / name


def everything(root: Path) -> dict[str, bytes]:
    return {str(page.relative_to(root)): page.read_bytes() for page in sorted(root.rglob("*.md"))}


def test_every_kind_has_its_source_here_and_its_name_in_the_grammar() -> None:
    assert set(SOURCES) == set(KINDS)
    assert vademecum.cli.transfer._KINDS == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_over_is_found_is_marked_and_is_taken_once(memory: Memory, tmp_path: Path, kind: str) -> None:
    theirs = source(tmp_path, kind)
    before = everything(tmp_path / "theirs")
    planned = import_memory(memory, kind, theirs, dry_run=True)
    assert everything(memory.root) == {"MEMORY.md": (memory.root / "MEMORY.md").read_bytes()}
    report = import_memory(memory, kind, theirs)
    assert (report.pages, report.sessions) == (planned.pages, planned.sessions)
    hits = memory.search(SOURCES[kind][2])
    assert hits and hits[0].origin == "import"
    here = everything(memory.root)
    again = import_memory(memory, kind, theirs)
    assert (again.pages, again.messages, everything(memory.root)) == ((), 0, here)
    assert again.known > 0
    assert everything(tmp_path / "theirs") == before


def test_a_page_whose_name_is_taken_gets_another_and_nothing_is_overwritten(memory: Memory, tmp_path: Path) -> None:
    memory.remember("my own")
    mine = (memory.root / "MEMORY.md").read_bytes()
    assert import_memory(memory, "openclaw", source(tmp_path, "openclaw")).pages[0] == "MEMORY-openclaw.md"
    assert (memory.root / "MEMORY.md").read_bytes() == mine
    write(tmp_path / "other", {"MEMORY.md": "- something else\n"})
    assert import_memory(memory, "openclaw", tmp_path / "other").pages == ("MEMORY-openclaw-2.md",)


def test_of_a_conversation_that_branched_the_open_branch_is_taken_with_its_times(
    memory: Memory, tmp_path: Path
) -> None:
    report = import_memory(memory, "chatgpt", source(tmp_path, "chatgpt"))
    assert report.sessions == ("chatgpt-c1",)
    assert [message.body["content"] for message in memory.history.messages_after("chatgpt-c1")] == [
        "Which bike?",
        "The gravel bike.",
    ]
    session = memory.history.session("chatgpt-c1")
    assert session is not None and session.title == "Bikes" and session.active_at == 1_770_000_001
    assert report.skipped == (("conversation 1", "has no id or no messages"),)


def test_a_users_import_stays_the_users(memory: Memory, tmp_path: Path) -> None:
    with Memory.open(memory.root, user="anna", settings=PATIENT) as anna:
        report = import_memory(anna, "mem0", source(tmp_path, "mem0"))
        assert report.pages == ("memory/users/anna/mem0/anna.md",)
        assert "Has a dog (2026-01-01)\n- Likes green tea" in anna.get(report.pages[0]).text
    assert not memory.search("green tea")


def test_a_zip_is_read_without_unpacking_and_one_that_explodes_is_refused(memory: Memory, tmp_path: Path) -> None:
    good, bad, none = (tmp_path / name for name in ("good.zip", "bad.zip", "none.zip"))
    with zipfile.ZipFile(good, "w") as archive:
        archive.writestr("export/conversations.json", json.dumps(CLAUDE))
        archive.writestr("../../evil.md", "evil")
    assert import_memory(memory, "claude", good).sessions == ("claude-u1",)
    assert not list(tmp_path.rglob("evil.md"))
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", "[" + " " * 50_000_000 + "]")
    with pytest.raises(UsageError, match="unpacks to"):
        import_memory(memory, "claude", bad)
    with zipfile.ZipFile(none, "w") as archive:
        archive.writestr("x.txt", "x")
    with pytest.raises(UsageError, match=r"conversations\.json"):
        import_memory(memory, "chatgpt", none)


def test_links_hidden_files_and_what_is_no_text_are_not_taken_and_named(memory: Memory, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write(theirs, {"good.md": "- good\n", "bad.md": b"\xff\xfe", "empty.md": " \n", ".secret/x.md": "no\n"})
    (tmp_path / "outside.md").write_text("outside\n")
    (theirs / "link.md").symlink_to(tmp_path / "outside.md")
    report = import_memory(memory, "openclaw", theirs)
    assert report.pages == ("good.md",)
    assert sorted(name for name, _ in report.skipped) == ["bad.md", "empty.md", "link.md"]


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1, 2]", '[{"mapping": 3}]', "null"])
@pytest.mark.parametrize("kind", ["chatgpt", "claude", "mem0"])
def test_a_file_of_another_shape_is_refused_or_skipped_and_nothing_is_written(
    memory: Memory, tmp_path: Path, kind: str, content: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    try:
        report = import_memory(memory, kind, file)
    except UsageError as error:
        assert str(file) in str(error)
    else:
        assert not report.pages and not report.sessions
    assert list(everything(memory.root)) == ["MEMORY.md"]


def filled(root: Path) -> Memory:
    write(
        root,
        {
            "MEMORY.md": "- rule\n",
            "memory/2026-01-02.md": "- day\n",
            "memory/users/anna/MEMORY.md": "- hers\n",
            "memory/dreams/2026-01-02.md": "- dream\n",
            "knowledge/a/b.md": "# B\n",
            ".vademecumignore": "drafts/\n",
        },
    )
    memory = Memory.open(root, settings=PATIENT)
    memory.history.append("s", [{"role": "user", "content": "about the fjord"}])
    memory.remember("second rule")
    return memory


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_an_archive_comes_back_as_the_same_memory(tmp_path: Path, name: str) -> None:
    with filled(tmp_path / "one") as memory:
        memory.sync()
        before, found = everything(memory.root), rows(memory)
        done = export_archive(memory, tmp_path / name, journal=True)
        export_archive(memory, tmp_path / f"again-{name}", journal=True)
        with pytest.raises(UsageError, match="exists already"):
            export_archive(memory, tmp_path / name)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()
    assert restore_archive(tmp_path / name, tmp_path / "two").files == done.files == 8
    with Memory.open(tmp_path / "two", settings=PATIENT) as restored:
        restored.sync()
        assert everything(restored.root) == before
        assert rows(restored) == found
        assert "fjord" in texts(restored.search("fjord"))
        assert [entry.by for entry in restored.log()] == ["person"]


def test_an_archive_is_everybodys_or_nobodys(tmp_path: Path) -> None:
    filled(tmp_path / "one").close()
    with Memory.open(tmp_path / "one", user="anna", settings=PATIENT) as anna:
        with pytest.raises(UsageError, match="everybody"):
            export_archive(anna, tmp_path / "a.tar")
        lines = [json.loads(line) for line in export_chunks(anna)]
    assert {line["scope"] for line in lines} == {"shared", "user:anna"}


def crafted(path: Path, name: str, content: bytes = b"x\n", kind: bytes = tarfile.REGTYPE, lie: bool = False) -> Path:
    from hashlib import sha256

    digest = sha256(b"y" if lie else content).hexdigest()
    manifest = json.dumps({"format": 1, "files": [{"path": name, "sha256": digest, "size": len(content)}]}).encode()
    with tarfile.open(path, "w") as tar:
        for file, data, type_ in (("manifest.json", manifest, tarfile.REGTYPE), (name, content, kind)):
            member = tarfile.TarInfo(file)
            member.type, member.size, member.linkname = (
                type_,
                len(data) if type_ == tarfile.REGTYPE else 0,
                "/etc/passwd",
            )
            tar.addfile(member, io.BytesIO(data) if type_ == tarfile.REGTYPE else None)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"name": "../evil.md"},
        {"name": "/tmp/evil.md"},
        {"name": "a/../../evil.md"},
        {"name": ".vademecum/index.sqlite"},
        {"name": ".ssh/x.md"},
        {"name": "x.sh"},
        {"name": "link.md", "kind": tarfile.SYMTYPE},
        {"name": "hard.md", "kind": tarfile.LNKTYPE},
        {"name": "lie.md", "lie": True},
    ],
    ids=lambda options: options["name"],
)
def test_an_archive_that_is_meant_to_do_harm_or_is_damaged_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    archive = crafted(tmp_path / "a.tar", **options)
    with pytest.raises(StoreError):
        restore_archive(archive, tmp_path / "in" / "root")
    assert not list(tmp_path.rglob("evil.md")) and not list(tmp_path.rglob("link.md"))


def test_an_archive_that_is_none_or_cut_off_is_named_and_a_root_in_use_is_left_alone(tmp_path: Path) -> None:
    with filled(tmp_path / "one") as memory:
        export_archive(memory, tmp_path / "a.tar")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:4096])
    (tmp_path / "none.tar").write_text("no archive")
    for name in ("cut.tar", "none.tar"):
        with pytest.raises((StoreError, UsageError), match=name):
            restore_archive(tmp_path / name, tmp_path / f"new-{name}")
    with pytest.raises(UsageError, match="not empty"):
        restore_archive(tmp_path / "a.tar", tmp_path / "one")


def test_chunks_go_out_with_the_vectors_that_search_uses(tmp_path: Path) -> None:
    write(tmp_path / "one", {"a.md": "# A\n\nfjord\n", "b.md": "- b\n"})
    with Memory.open(tmp_path / "one", settings=PATIENT, embedder=HashedEmbedder(8)) as memory:
        lines = [json.loads(line) for line in export_chunks(memory, vectors=True)]
    assert [line["path"] for line in lines] == ["MEMORY.md", "a.md", "b.md"][-len(lines) :]
    assert all(len(line["vector"]) == 8 and abs(sum(x * x for x in line["vector"]) - 1) < 1e-5 for line in lines)
    assert lines[0]["heading"] == ["A"] and "fjord" in lines[0]["text"] and "|8|" in lines[0]["lane"]


def test_the_commands_take_give_and_restore(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "none")
    filled(tmp_path / "one").close()
    root = ["--root", str(tmp_path / "one")]
    theirs = str(source(tmp_path, "openclaw"))
    assert main([*root, "import", "openclaw", theirs, "--dry-run"]) == 0
    assert main([*root, "import", "openclaw", theirs, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["pages"] == [
        "MEMORY-openclaw.md",
        "memory/2026-01-02-openclaw.md",
    ]
    assert main([*root, "export", str(tmp_path / "a.tgz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 9
    assert main(["restore", str(tmp_path / "a.tgz"), str(tmp_path / "two")]) == 0
    capsys.readouterr()
    assert main([*root, "export", "--chunks"]) == 0
    assert {"path", "text", "start_line"} <= json.loads(capsys.readouterr().out.splitlines()[0]).keys()
    assert main([*root, "export"]) == 2
    assert main([*root, "export", "x.tar", "--vectors"]) == 2
    assert main([*root, "import", "openclaw", str(tmp_path / "nowhere")]) == 2
