"""`KnowledgeService` as a console and as messages use it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cowagent_contract import covers
from cowagent_support import install_shim  # noqa: F401 - a fixture
from memories import write

pytest.importorskip("markdown_it")

PAGES = {
    "knowledge/finance/etf.md": "# ETF\n\nA fund; see [bonds](bonds.md).\n",
    "knowledge/finance/bonds.md": "# Bonds\n\nLoans.\n",
    "knowledge/note.md": "# A note\n",
}


@pytest.fixture
def service(tmp_path: Path) -> Any:
    from agent.knowledge.service import KnowledgeService

    write(tmp_path / "cow", PAGES)
    made = KnowledgeService(str(tmp_path / "cow"))
    yield made
    made.close()


class FakeManager:
    """As the host's own tests make one."""

    class Storage:
        def __init__(self) -> None:
            self.deleted: list[str] = []

        def delete_by_path(self, path: str) -> None:
            self.deleted.append(path)

    def __init__(self) -> None:
        self.storage = self.Storage()
        self.dirty = 0
        self.synced = 0

    def mark_dirty(self) -> None:
        self.dirty += 1

    async def sync(self) -> None:
        self.synced += 1


@covers(
    "agent.knowledge.service",
    "KnowledgeService KnowledgeService#knowledge_dir KnowledgeService.list_tree KnowledgeService.read_file"
    " KnowledgeService.build_graph KnowledgeService._resolve_path KnowledgeService.PROTECTED_FILES"
    " KnowledgeService.MAX_IMPORT_FILES KnowledgeService.MAX_IMPORT_FILE_SIZE KnowledgeService.MAX_IMPORT_TOTAL_SIZE",
)
def test_pages_are_listed_read_and_linked(service: Any, tmp_path: Path, conf: dict[str, Any]) -> None:
    from agent.knowledge.service import KnowledgeService

    KnowledgeService(tmp_path / "cow").close()
    assert service.knowledge_dir == str(tmp_path / "cow/knowledge")
    tree = service.list_tree()
    assert [(file["name"], file["title"]) for file in tree["root_files"]] == [("note.md", "A note")]
    (finance,) = tree["tree"]
    assert (finance["dir"], [file["name"] for file in finance["files"]]) == ("finance", ["bonds.md", "etf.md"])
    assert finance["children"] == []
    assert (tree["stats"]["pages"], tree["enabled"]) == (3, True)
    conf["knowledge"] = False
    assert service.list_tree()["enabled"] is False
    assert service.read_file("finance/etf.md") == {"content": PAGES["knowledge/finance/etf.md"].rstrip("\n"),
                                                   "path": "finance/etf.md"}  # fmt: skip
    graph = service.build_graph()
    assert {"id": "finance/etf.md", "label": "ETF", "category": "finance"} in graph["nodes"]
    assert graph["links"] == [{"source": "finance/etf.md", "target": "finance/bonds.md"}]
    assert service._resolve_path("finance/etf.md") == str(tmp_path / "cow/knowledge/finance/etf.md")
    assert service._resolve_path("finance") == str(tmp_path / "cow/knowledge/finance")
    for path in ("../MEMORY.md", "a//b.md", "/etc/passwd", "", "./a.md"):
        with pytest.raises(ValueError, match=r"path|knowledge|root"):
            service._resolve_path(path)
    assert set(service.PROTECTED_FILES) == {"index.md", "log.md"}
    assert (service.MAX_IMPORT_FILES, service.MAX_IMPORT_FILE_SIZE, service.MAX_IMPORT_TOTAL_SIZE) == (
        100,
        10 * 2**20,
        200 * 2**20,
    )


@covers(
    "agent.knowledge.service",
    "KnowledgeService.create_document KnowledgeService.import_documents KnowledgeService.create_category"
    " KnowledgeService.rename_category KnowledgeService.delete_category KnowledgeService.delete_documents"
    " KnowledgeService.move_documents KnowledgeService.rebuild_index_md",
)
def test_pages_are_made_moved_and_deleted_and_the_index_follows(service: Any, tmp_path: Path) -> None:
    root = tmp_path / "cow/knowledge"
    assert service.create_document("finance/gold.md", "# Gold\n")["paths"] == ["finance/gold.md"]
    with pytest.raises(FileExistsError):
        service.create_document("finance/gold.md", "other")
    service.create_document("finance/gold.md", "# Gold again\n", overwrite=True)
    files = [{"filename": "a.txt", "content": b"\xef\xbb\xbf# From text\n"}, {"filename": "etf.md", "content": "x"}]
    imported = service.import_documents("finance", files)
    assert (imported["paths"], imported["skipped"]) == (["finance/a.md"], ["finance/etf.md"])
    renamed = service.import_documents("finance", files[1:], conflict_strategy="rename")
    assert renamed["paths"] == ["finance/etf-2.md"]
    service.create_category("new")
    assert service.move_documents(["finance/bonds.md"], "new")["paths"] == ["new/bonds.md"]
    assert "../new/bonds.md" in (root / "finance/etf.md").read_text()
    assert service.rename_category("new", "debt")["paths"] == ["debt/bonds.md"]
    assert "new/bonds.md" not in (root / "index.md").read_text()
    assert service.delete_documents(["finance/gold.md", "finance/a.md"])["removed"] == [
        "finance/gold.md",
        "finance/a.md",
    ]
    with pytest.raises(FileExistsError):
        service.delete_category("debt")
    service.delete_category("debt", confirm=True)
    assert not (root / "debt").exists()
    (root / "loose.md").write_text("# Loose\n")
    assert "loose.md" in service.rebuild_index_md()
    with pytest.raises(ValueError, match="index"):
        service.delete_documents(["finance/etf.md", "INDEX.md"])
    assert (root / "finance/etf.md").exists()  # all or none
    with pytest.raises(FileNotFoundError):
        service.read_file("finance/none.md")


@covers("agent.knowledge.service", "KnowledgeService.dispatch")
def test_messages_are_answered_with_codes(service: Any) -> None:
    asked: list[tuple[str, Any, int]] = [
        ("list", None, 200),
        ("read", {"path": "finance/etf.md"}, 200),
        ("read", {"path": "none.md"}, 404),
        ("read", {"path": "../MEMORY.md"}, 403),
        ("read", {}, 400),
        ("graph", {}, 200),
        ("burn", {}, 400),
        ("create_category", {"path": "new"}, 200),
        ("create_category", {"path": "new"}, 409),
        ("create_document", {"path": "new/page.md", "content": "# Page\n"}, 200),
        ("create_document", {"path": "new/page.md", "content": "# Page\n"}, 409),
        ("create_document", {"path": "new/a<b.md", "content": "x"}, 403),
        ("create_document", {"path": "new/x.md", "content": 3}, 403),
        ("rename_category", {"path": "new", "new_path": "newer"}, 200),
        ("rename_category", {"path": "newer", "new_path": "newer/inner"}, 403),
        ("move_documents", {"paths": ["newer/page.md"], "category": "finance"}, 200),
        ("delete_documents", {"paths": ["finance/page.md"]}, 200),
        ("delete_documents", {"paths": "finance/etf.md"}, 403),
        ("import_documents", {"category": "finance", "files": [{"filename": "f.md", "content": "# F\n"}]}, 200),
        ("import_documents", {"category": "finance", "files": [{"filename": "f.pdf", "content": "x"}]}, 403),
        ("import_documents", {"category": "finance", "files": "x"}, 403),
        ("delete_category", {"path": "finance"}, 409),
        ("delete_category", {"path": "finance", "confirm": "yes"}, 409),
        ("delete_category", {"path": "finance", "confirm": True}, 200),
    ]
    answers = [(action, payload, service.dispatch(action, payload)) for action, payload, _ in asked]
    assert [(action, payload, answer["code"]) for action, payload, answer in answers] == asked
    assert all(answer["action"] == action for action, _, answer in answers)
    read = answers[1][2]
    assert (read["message"], read["payload"]["path"]) == ("success", "finance/etf.md")


def test_a_hosts_manager_is_told_of_changes_also_inside_a_loop(tmp_path: Path) -> None:
    from agent.knowledge.service import KnowledgeService

    write(tmp_path / "cow", PAGES)
    manager = FakeManager()
    service = KnowledgeService(str(tmp_path / "cow"), manager)

    async def work() -> None:
        service.delete_documents(["note.md"])

    asyncio.run(work())
    assert (manager.storage.deleted, manager.dirty, manager.synced) == (["knowledge/note.md"], 1, 1)
    service.close()


def test_what_a_console_changes_is_found_by_a_manager(service: Any, tmp_path: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(tmp_path / "cow")))
    service.create_document("fruit/kiwi.md", "# Kiwi\n\nAn exotic fruit.\n")
    assert asyncio.run(manager.search("exotic"))[0].path == "knowledge/fruit/kiwi.md"
    service.delete_documents(["fruit/kiwi.md"])
    assert asyncio.run(manager.search("exotic")) == []
    manager.close()


def test_the_hosts_tests_find_the_modules_that_they_replace(monkeypatch: pytest.MonkeyPatch, service: Any) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError("not on this file system")

    monkeypatch.setattr("agent.knowledge.service.os.link", refuse)
    monkeypatch.setattr("agent.knowledge.service.shutil.rmtree", refuse)
    assert service.move_documents(["note.md"], "finance")["paths"] == ["finance/note.md"]
    service.delete_category("finance", confirm=True)
