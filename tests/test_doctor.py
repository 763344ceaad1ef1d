"""Everything that can be wrong with a memory is found by name, and mended where that can be."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from embedders import HashedEmbedder
from loopback import Loopback, status
from memories import PATIENT, OpenMemory, paths, write
from store_support import environment
from vademecum import Memory, Settings, cli, kernels
from vademecum.diagnose import machine
from vademecum.errors import UsageError
from vademecum.settings import EmbeddingSettings
from vademecum.types import Finding

PAGES = {f"note{number}.md": f"Words of note number{number}" for number in range(40)}


def of(findings: tuple[Finding, ...], check: str, state: str = "wrong") -> list[Finding]:
    return [finding for finding in findings if (finding.check, finding.state) == (check, state)]


def wrong(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.state == "wrong"]


def query(memory: Memory, *statements: str, file: str = "index.sqlite") -> None:
    with closing(sqlite3.connect(memory.root / ".vademecum" / file)) as db, db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    made = open_memory(PAGES | {"MEMORY.md": "# Memory\n"}, embedder=HashedEmbedder())
    made.sync()
    return made


def test_nothing_is_wrong_with_a_memory_in_use(memory: Memory) -> None:
    memory.remember("a new thing")
    memory.sync()
    findings = memory.doctor()
    assert wrong(findings) == []
    assert {finding.check for finding in findings} >= {
        "layout", "permissions", "lock", "leftovers", "journal", "history", "clock", "kernels", "provider", "database",
        "full text", "rows", "words", "lookup", "links", "lanes", "vectors", "pages",
    }  # fmt: skip
    assert of(findings, "provider", "ok")[0].where == "test|hashed|64|||unit"


# what is wrong in the tables, how it is told, and that the search after mending is right

#: Row 3 stays, and none of its words are looked up any more.
LOSE_ROW = [
    "CREATE TEMP TABLE row AS SELECT rowid AS r, heading AS h, body AS b FROM words WHERE rowid = 3",
    "CREATE TEMP TABLE size AS SELECT * FROM words_docsize WHERE id = 3",
    "DELETE FROM words WHERE rowid = 3",
    "INSERT INTO words_content(id, c0, c1) SELECT r, h, b FROM row",
    "INSERT INTO words_docsize SELECT * FROM size",
]
GHOST = "INSERT INTO words(rowid, heading, body) VALUES (9999, '', 'ghost')"
FAULTS = {
    "words of no chunk": (
        "rows",
        [GHOST],
        "1 rows of words",
    ),
    "a chunk of no file": ("rows", ["DELETE FROM files WHERE path = 'note3.md'"], "1 chunks belong to no file"),
    "a chunk without words": ("rows", ["DELETE FROM words WHERE rowid = 3"], "1 chunks have no words"),
    "words of another text": ("words", ["UPDATE words SET body = 'wrong'"], "chunks have other words than their text"),
    "full text that lost a row": ("full text", LOSE_ROW, "does not fit its rows"),
    "another text's vector": ("links", ["UPDATE chunks SET text_id = 1 WHERE id = 5"], "a vector that is not theirs"),
    "a vector that is gone": ("links", ["UPDATE chunks SET text_id = 77 WHERE id = 5"], "a vector that is not theirs"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_index_is_named_and_mended(memory: Memory, fault: str) -> None:
    check, statements, what = FAULTS[fault]
    query(memory, *statements)
    found = of(memory.doctor(), check)
    assert [finding for finding in found if what in finding.what and finding.where == "index.sqlite"]
    assert "--fix" in found[0].fix
    fixed = memory.doctor(fix=True)
    assert of(fixed, check, "fixed")
    assert wrong(fixed) == []
    memory.sync()
    assert wrong(memory.doctor()) == []
    for number in (1, 3, 5, 39):
        hit = memory.search(f"Words of note number{number}")[0]
        assert (hit.path, hit.trace.vector, hit.trace.keyword) == (f"note{number}.md", pytest.approx(1, abs=1e-5), 1.0)


def test_what_full_text_finds_is_compared_with_a_plain_scan(memory: Memory) -> None:
    query(memory, *LOSE_ROW)
    (found,) = of(memory.doctor(), "lookup")
    assert found.what.startswith("full text finds 'words' in 39 rows instead of 40")


VECTOR_FAULTS = {
    "a vector without length": "UPDATE v1 SET vec = zeroblob(256) WHERE id = 4",
    "a vector cut short": "UPDATE v1 SET vec = zeroblob(12) WHERE id = 4",
    "a vector that is no number": "UPDATE v1 SET vec = CAST(x'0000c07f' || substr(vec, 5) AS BLOB) WHERE id = 4",
    "another vector's code": "UPDATE c1 SET code = (SELECT code FROM c1 WHERE id = 5) WHERE id = 4",
    "a vector without code": "DELETE FROM c1 WHERE id = 4",
    "a code without vector": "DELETE FROM v1 WHERE id = 4",
    "a vector without text": "INSERT INTO v1 SELECT 999, vec FROM v1 WHERE id = 4",
}


@pytest.mark.parametrize("fault", VECTOR_FAULTS)
def test_a_damaged_vector_is_found_and_made_again(memory: Memory, fault: str) -> None:
    query(memory, VECTOR_FAULTS[fault], file="vectors.sqlite")
    (found,) = of(memory.doctor(), "vectors")
    assert (found.where, found.what) == (
        "test|hashed|64|||unit",
        "1 vectors are damaged or belong to nothing; they are made again",
    )
    assert of(memory.doctor(fix=True), "vectors", "fixed")
    memory.sync()
    assert wrong(memory.doctor()) == []
    assert memory.search("Words of note number3")[0].trace.vector == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE lanes SET state = 'kept'", "0 lanes serve"),
        (
            "INSERT INTO lanes(fingerprint, dims, state, lo, hi) VALUES ('x', 4, 'serving', 0, 1)",
            "lane 2 lacks a table",
        ),
        ("CREATE TABLE v7(id INTEGER PRIMARY KEY, vec BLOB)", "tables v7 belong to no lane"),
    ],
)
def test_lanes_are_put_in_order(memory: Memory, statement: str, what: str) -> None:
    query(memory, statement, file="vectors.sqlite")
    assert what in of(memory.doctor(), "lanes")[0].what
    assert wrong(memory.doctor(fix=True)) == []
    assert wrong(memory.doctor()) == []
    assert memory.search("Words of note number3")[0].trace.vector == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["index.sqlite", "vectors.sqlite"])
def test_a_database_damaged_beyond_repair_is_set_aside_and_built_anew(memory: Memory, name: str) -> None:
    file = memory.root / ".vademecum" / name
    size = 65536 if name == "vectors.sqlite" else 4096
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        table = "v1" if name == "vectors.sqlite" else "chunks"
        (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    with file.open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * 600)
    found = [finding for finding in wrong(memory.doctor()) if finding.where == name]
    assert found
    assert all(finding.fix for finding in found)
    fixed = memory.doctor(fix=True)
    assert wrong(fixed) == []
    assert list(file.parent.glob(f"{name}.corrupt-*"))
    memory.sync()
    findings = memory.doctor()
    assert wrong(findings) == []
    assert of(findings, "set aside", "note")
    assert memory.search("Words of note number3")[0].path == "note3.md"


def test_an_index_that_cannot_be_opened_is_a_finding(open_memory: OpenMemory) -> None:
    with open_memory(PAGES) as memory:
        memory.sync()
        query(memory, "PRAGMA user_version = 99")
    memory = open_memory()
    (found,) = of(memory.doctor(fix=True), "index")
    assert "newer vademecum" in found.what


# what lies in the folder


def test_pages_that_cannot_be_read_are_named_and_changes_counted(memory: Memory) -> None:
    write(memory.root, {"bad.md": b"\xff\xfe", "new.md": "new", "note1.md": "changed"})
    (memory.root / "note2.md").unlink()
    findings = memory.doctor()
    (found,) = of(findings, "pages")
    assert (found.where, found.fix) == ("bad.md", "mend the file, then `vademecum sync`")
    assert "not valid UTF-8" in found.what
    assert of(findings, "pages", "note")[0].what == "3 changes are not indexed yet"
    fixed = memory.doctor(fix=True)
    assert [finding.where for finding in wrong(fixed)] == ["bad.md"]
    assert paths(memory.search("new", wait_ms=0)) == ["new.md"]
    (memory.root / "bad.md").unlink()
    assert wrong(memory.doctor(fix=True)) == []


def test_nobody_learns_of_anothers_pages(open_memory: OpenMemory) -> None:
    write_bob = {"memory/users/bob/bad.md": b"\xff"}
    memory = open_memory(PAGES | write_bob)
    assert "bob" not in str(memory.doctor())
    assert "memory/users/bob/bad.md" in str(open_memory(user="bob").doctor())


def test_what_writes_left_behind_is_deleted(memory: Memory) -> None:
    state = memory.root / ".vademecum"
    (memory.root / "deep").mkdir()
    write(memory.root, {"deep/a.md": "a"})
    (state / "ann").mkdir()
    stale = [
        memory.root / ".vademecum-write.tmp",
        memory.root / "deep/.vademecum-write.tmp",
        state / "ann/lane1.hnsw.new",
    ]
    stale += [state / "history.sqlite-wal"]
    for file in stale:
        file.write_text("half")
        os.utime(file, (0, 0))
    young = state / "ann" / "lane2.hnsw.new"
    young.write_text("another process writes this")
    assert {finding.where for finding in of(memory.doctor(), "leftovers")} == {str(file) for file in stale}
    assert len(of(memory.doctor(fix=True), "leftovers", "fixed")) == 4
    assert young.exists()
    assert not any(file.exists() for file in stale)
    assert wrong(memory.doctor()) == []


def test_a_lock_that_is_held_is_told(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    monkeypatch.setattr("vademecum.diagnose.folder._LOCK_WAIT_S", 0.2)
    code = "from vademecum.store.lock import root_lock\nfrom pathlib import Path\nimport sys\n"
    code += "with root_lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(memory.root)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    (found,) = of(memory.doctor(), "lock")
    holder.communicate(b"")
    assert found.fix == "end the program that holds it"
    assert wrong(memory.doctor()) == []


@pytest.mark.skipif(os.name != "posix", reason="this system has no modes")
def test_who_else_can_write_here_is_told_and_kept_out(memory: Memory) -> None:
    state = memory.root / ".vademecum"
    state.chmod(0o777)
    (state / "index.sqlite").chmod(0o666)
    found = of(memory.doctor(), "permissions")
    assert {finding.where for finding in found} >= {str(state), str(state / "index.sqlite")}
    assert f"chmod 775 {state}" in {finding.fix for finding in found}
    memory.doctor(fix=True)
    assert state.stat().st_mode & 0o777 == 0o775
    assert wrong(memory.doctor()) == []


def test_files_set_aside_are_told_of(memory: Memory) -> None:
    state = memory.root / ".vademecum"
    for name in ("index.sqlite.corrupt-20260101T000000", "history.sqlite.corrupt-20260101T000000"):
        (state / name).write_text("x" * 10)
    fixes = {finding.where: finding.fix for finding in of(memory.doctor(), "set aside", "note")}
    assert "gc" in fixes[str(state / "index.sqlite.corrupt-20260101T000000")]
    assert "conversations" in fixes[str(state / "history.sqlite.corrupt-20260101T000000")]


def test_the_layout_is_explained(open_memory: OpenMemory) -> None:
    memory = open_memory({"2026-01-01.md": "old", "memory/2026-01-02.md": "new", "Memory.md": "which?"})
    notes = {finding.where: finding for finding in of(memory.doctor(), "layout", "note")}
    assert "Memory.md is an ordinary page" in notes["MEMORY.md"].what
    assert "2026-01-01.md" in notes[str(memory.root)].what


def test_a_damaged_history_is_saved_and_a_damaged_journal_told(memory: Memory) -> None:
    history = memory.root / ".vademecum" / "history.sqlite"
    memory.history.append("s", [{"role": "user", "content": "hello"}])
    with closing(sqlite3.connect(history)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with history.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * 200)
    memory.remember("something")
    journal = memory.root / ".vademecum" / "journal" / "journal.sqlite"
    journal.write_bytes(b"this is no database" * 500)
    findings = memory.doctor()
    assert of(findings, "history")[0].where == str(history)
    assert of(findings, "journal")[0].where == str(journal)
    fixed = memory.doctor(fix=True)
    assert of(fixed, "history", "fixed")
    assert list(history.parent.glob("history.sqlite.corrupt-*"))


def test_a_folder_that_is_gone_is_a_finding_and_no_error(memory: Memory) -> None:
    memory.root.rename(memory.root.with_name("away"))
    assert [finding.state for finding in memory.doctor(fix=True)] == ["wrong"]
    memory.root.with_name("away").rename(memory.root)
    assert wrong(memory.doctor()) == []


# what it stands on


def test_a_page_of_the_future_is_told(memory: Memory) -> None:
    ahead = time.time() + 3 * 86_400
    os.utime(memory.root / "note7.md", (ahead, ahead))
    (found,) = of(memory.doctor(), "clock")
    assert (found.where, "3 days in the future" in found.what) == ("note7.md", True)


@pytest.mark.skipif(kernels.NAME != "native", reason="there is nothing to compare")
@pytest.mark.parametrize("name", ["scores", "top_k", "encode", "jaccard", "mmr"])
def test_a_kernel_that_errs_is_named(memory: Memory, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    right: Callable[..., object] = getattr(kernels, name)

    def mistaken(*arguments: object) -> object:
        found = right(*arguments)
        if isinstance(found, float):
            return found + 0.5
        return tuple(part[..., ::-1] + 1 for part in found) if isinstance(found, tuple) else found[::-1] + 1  # type: ignore[index]

    monkeypatch.setattr(kernels, name, mistaken)
    (found,) = list(machine.check_kernels())
    assert found.state == "wrong"
    assert name in found.what
    assert "VADEMECUM_KERNELS=reference" in found.fix


def test_the_provider_is_asked_within_bounds(open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PATIENCE_S", 0.3)

    class Hanging(HashedEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            time.sleep(1)
            return super().embed_documents(texts)

    class Buggy(HashedEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            return 1 / 0

    assert "no answer within" in next(machine.check_provider(Hanging(), "")).what
    assert "ZeroDivisionError" in next(machine.check_provider(Buggy(), "")).what
    assert next(machine.check_provider(None, "off: because")).state == "skipped"
    assert of(open_memory(PAGES).doctor(), "provider", "skipped")[0].what == "off: embedding.provider is none"


@pytest.mark.parametrize(
    ("answer", "state"), [(status(401, "bad key"), "wrong"), (status(500), "wrong"), (None, "skipped")]
)
def test_a_refusal_is_wrong_and_being_offline_is_not(open_memory: OpenMemory, answer: object, state: str) -> None:
    pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")
    with Loopback() as server:
        if answer is not None:
            server.always(answer)  # type: ignore[arg-type]
        address = server.base_url if answer is not None else "http://127.0.0.1:9/v1"
        embedding = EmbeddingSettings(provider="openai", base_url=address, model="m", timeout_s=30)
        memory = open_memory(PAGES, settings=Settings(embedding=embedding, search=PATIENT.search))
        assert [f.state for f in memory.doctor() if f.check == "provider"] == [state], memory.doctor()


# on the command line


def test_the_exit_code_says_whether_something_stays_wrong(
    open_memory: OpenMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_memory(PAGES) as memory:
        memory.sync()
        query(memory, "DELETE FROM words WHERE rowid = 3")
        root = str(memory.root)
    assert cli.main(["doctor", "--root", root]) == 1
    out = capsys.readouterr().out
    assert "wrong   rows: index.sqlite: 1 chunks have no words → `vademecum doctor --fix` mends it" in out
    assert "findings are wrong" in out
    assert cli.main(["doctor", "--root", root, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["sound"] is False
    assert {"check", "state", "where", "what", "fix"} == set(answer["findings"][0])
    assert cli.main(["doctor", "--fix", "--root", root]) == 0
    assert cli.main(["doctor", "--root", root]) == 0
    assert capsys.readouterr().out.endswith("nothing is wrong\n")


def test_fix_must_be_meant(memory: Memory) -> None:
    with pytest.raises(UsageError, match="fix"):
        memory.doctor(fix="yes")  # type: ignore[arg-type]


def test_looking_changes_nothing(memory: Memory) -> None:
    memory.close()
    root = Path(memory.root)
    query(memory, "PRAGMA wal_checkpoint(TRUNCATE)")
    query(memory, "PRAGMA wal_checkpoint(TRUNCATE)", file="vectors.sqlite")
    before = {file: file.read_bytes() for file in root.rglob("*.sqlite")}
    with Memory.open(root, settings=PATIENT) as again:
        again.doctor()
    assert {file: file.read_bytes() for file in root.rglob("*.sqlite")} == before
