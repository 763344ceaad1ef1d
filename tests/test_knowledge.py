"""The knowledge base: what each operation does to pages, links, index and log, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memories import PATIENT, OpenMemory, paths, texts, write
from store_support import python
from vademecum import AsyncMemory, Memory
from vademecum.errors import ConflictError, MissingFileError, PathError, StoreError, UnreadableFileError, UsageError
from vademecum.knowledge.records import Category

pytest.importorskip("markdown_it", reason="the package markdown-it-py is not installed (vademecum[knowledge])")

LINKED = {
    "MEMORY.md": "- See [the ETFs](knowledge/finance/etf.md#core) and [[finance/etf|them]].\n",
    "memory/2026-01-02.md": "Read [[etf]].\n",
    "knowledge/finance/etf.md": "# ETFs\n\nLike [gold](../metals/gold.md), see ![chart](chart.png) and [[gold]].\n",
    "knowledge/finance/chart.png": "png",
    "knowledge/metals/gold.md": "# Gold\n\n[back][etf]\n\n[etf]: ../finance/etf.md 'ETF'\n",
}


def _page(memory: Memory, path: str) -> str:
    return (memory.root / path).read_text(encoding="utf-8")


def _names(category: Category) -> list[str]:
    below = [name for inner in category.categories for name in _names(inner)]
    return [f"{category.name}/", *(page.path for page in category.pages), *below]


def test_a_page_is_made_listed_logged_and_found(open_memory: OpenMemory) -> None:
    memory = open_memory()
    done = memory.knowledge.create("finance/etf.md", "# ETFs\n\nAccumulating shares.")
    assert done.pages == ("knowledge/finance/etf.md",)
    assert _page(memory, "knowledge/finance/etf.md") == "# ETFs\n\nAccumulating shares.\n"
    assert _page(memory, "knowledge/index.md") == "# Knowledge\n\n## finance\n\n- [ETFs](./finance/etf.md)\n"
    assert "create `finance/etf.md`\n" in _page(memory, "knowledge/log.md")
    # Without a look at the disk: the operation itself has brought the index of the search up to date.
    assert paths(memory.search("accumulating", wait_ms=0)) == ["knowledge/finance/etf.md"]
    assert memory.knowledge.read("finance/etf.md", start=3).text == "Accumulating shares."


def test_what_exists_is_replaced_only_on_request(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.knowledge.create("a.md", "# Old\n\nsilver")
    with pytest.raises(ConflictError, match=r"knowledge/a\.md: exists already"):
        memory.knowledge.create("knowledge/a.md", "# New")
    memory.knowledge.create("a.md", "# New\n\ncopper", overwrite=True)
    assert _page(memory, "knowledge/index.md") == "# Knowledge\n\n- [New](./a.md)\n"
    assert not memory.search("silver", wait_ms=0)
    assert paths(memory.search("copper", wait_ms=0)) == ["knowledge/a.md"]


def test_a_page_that_moves_takes_all_links_with_it(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    done = memory.knowledge.move("finance/etf.md", "funds/world")
    new = "knowledge/funds/world/etf.md"
    assert (done.pages, done.removed) == ((new,), ("knowledge/finance/etf.md",))
    assert set(done.rewritten) == {new, "MEMORY.md", "knowledge/metals/gold.md"}
    assert _page(memory, "MEMORY.md") == (
        "- See [the ETFs](knowledge/funds/world/etf.md#core) and [[world/etf|them]].\n"
    )
    assert _page(memory, "memory/2026-01-02.md") == "Read [[etf]].\n"
    assert "[gold](../../metals/gold.md), see ![chart](../../finance/chart.png) and [[gold]]" in _page(memory, new)
    assert "[etf]: ../funds/world/etf.md 'ETF'" in _page(memory, "knowledge/metals/gold.md")
    assert memory.knowledge.check().sound
    assert paths(memory.search("chart", wait_ms=0))[:1] == [new]


def test_a_page_can_be_renamed_in_its_folder_or_to_anywhere(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    memory.knowledge.rename("finance/etf.md", "funds (core).md")
    assert "(knowledge/finance/funds%20%28core%29.md#core) and [[finance/funds (core)|them]]" in _page(
        memory, "MEMORY.md"
    )
    memory.knowledge.rename("finance/funds (core).md", "/etf.md")
    assert _page(memory, "MEMORY.md") == "- See [the ETFs](knowledge/etf.md#core) and [[knowledge/etf|them]].\n"
    assert memory.knowledge.check().sound


def test_a_category_is_renamed_with_all_that_links_to_it(open_memory: OpenMemory) -> None:
    memory = open_memory({**LINKED, "knowledge/finance/deep/note.md": "[up](../etf.md)"})
    (memory.root / "knowledge/finance/empty").mkdir()
    done = memory.knowledge.rename("finance", "money/funds")
    assert set(done.pages) == {"knowledge/money/funds/etf.md", "knowledge/money/funds/deep/note.md"}
    # What is no page stays, and links to it still lead there.
    assert done.notices == ("knowledge/finance: 1 file that is no page stays there",)
    assert "![chart](../../finance/chart.png)" in _page(memory, "knowledge/money/funds/etf.md")
    assert _page(memory, "knowledge/money/funds/deep/note.md") == "[up](../etf.md)"
    assert "money/funds/empty/" in _names(memory.knowledge.tree().root)
    assert memory.knowledge.check().sound
    assert "rename category `finance` → `money/funds`" in _page(memory, "knowledge/log.md")


def test_deleting_names_the_links_that_then_lead_nowhere(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    memory.knowledge.check(fix=True)
    done = memory.knowledge.delete("finance/etf.md")
    found = [(reference.page, reference.line) for reference in done.broken]
    assert found == [("MEMORY.md", 1), ("MEMORY.md", 1), ("knowledge/metals/gold.md", 5), ("memory/2026-01-02.md", 1)]
    assert _page(memory, "knowledge/index.md") == "# Knowledge\n\n## metals\n\n- [Gold](./metals/gold.md)\n"
    assert not memory.search("chart", wait_ms=0)
    assert [reference.target for reference in memory.knowledge.check().broken].count("knowledge/finance/etf.md") == 2


def test_a_category_with_pages_is_deleted_only_recursively(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    with pytest.raises(ConflictError, match=r"1 pages are in it, knowledge/finance/etf\.md is one"):
        memory.knowledge.delete("finance")
    done = memory.knowledge.delete(["finance", "metals/gold.md"], recursive=True)
    assert done.removed == ("knowledge/metals/gold.md", "knowledge/finance/etf.md")
    assert done.notices == ("knowledge/finance: 1 file that is no page stays there",)
    assert (memory.root / "knowledge/finance/chart.png").read_text() == "png"
    assert memory.knowledge.tree().pages == 0


def test_files_are_imported_under_the_rule_for_names_that_are_taken(open_memory: OpenMemory) -> None:
    memory = open_memory({"knowledge/in/a.md": "# Old\n", "knowledge/in/a-2.md": "# Two\n"})
    files = [("a.txt", "# New\r\n".encode("utf-8-sig")), ("b.MD", "# B")]
    done = memory.knowledge.import_files("in", files)
    assert (done.pages, done.skipped) == (("knowledge/in/b.MD",), ("knowledge/in/a.md",))
    done = memory.knowledge.import_files("in", files[:1], existing="rename")
    assert done.pages == ("knowledge/in/a-3.md",)
    assert _page(memory, "knowledge/in/a-3.md") == "# New\n"
    assert memory.knowledge.import_files("in", files[:1], existing="overwrite").pages == ("knowledge/in/a.md",)
    assert "import `in/b.MD`" in _page(memory, "knowledge/log.md")
    assert memory.knowledge.check().sound


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([("good.md", b"# Good"), ("bad.md", b"\xff\xfe")], "is not valid UTF-8 at byte 0"),
        ([("good.md", b"# Good"), ("x.pdf", b"%PDF")], "only .md and .txt files"),
        ([("good.md", b"# Good"), ("../up.md", b"x")], "without folders"),
        ([("good.md", b"# Good"), ("a:b.md", b"x")], "holds ':'"),
        ([("good.md", b"# Good"), ("index.md", b"x")], "are kept by the knowledge base itself"),
        ([("good.md", b"# Good"), ("blank.md", b" \n")], "says something"),
        ([(f"{n}.md", b"x") for n in range(101)], "at most 100 files"),
        ([("good.md", b"# Good"), ("big.md", b"x" * (10 * 1024 * 1024 + 1))], "of 10 MiB each"),
    ],
)
def test_an_import_is_checked_as_a_whole_first(
    open_memory: OpenMemory, files: list[tuple[str, bytes | str]], message: str
) -> None:
    memory = open_memory()
    with pytest.raises((PathError, UsageError, UnreadableFileError), match=message):
        memory.knowledge.import_files("", files)
    assert not (memory.root / "knowledge").exists()


_CALLS: list[Callable[[Memory], object]] = [
    lambda memory: memory.knowledge.create("x.md", ""),
    lambda memory: memory.knowledge.create("x.md", "nul\0"),
    lambda memory: memory.knowledge.create("x.md", "\ud800"),
    lambda memory: memory.knowledge.create(None, "x"),  # type: ignore[arg-type]
    lambda memory: memory.knowledge.delete([]),
    lambda memory: memory.knowledge.move([], "x"),
    lambda memory: memory.knowledge.delete(""),
    lambda memory: memory.knowledge.import_files("x", [("a.md", b"x")], existing="ask"),  # type: ignore[arg-type]
    lambda memory: memory.knowledge.private,
]


@pytest.mark.parametrize("call", _CALLS)
def test_what_cannot_be_meant_is_refused(open_memory: OpenMemory, call: Callable[[Memory], object]) -> None:
    memory = open_memory()
    with pytest.raises(UsageError):
        call(memory)
    assert not (memory.root / "knowledge").exists()


# fmt: off
_BAD_NAMES = [
    "../x.md", "a/../../x.md", ".hidden.md", "a/.b/x.md", "a//x.md", "a/ x.md", "a /x.md", "x..md/y.md", "a\\b.md",
    "CON.md", "nul/x.md", "a\nb.md", "what?.md", "a|b.md", "x.txt", "knowledge/knowledge/x.md", "x.md/y.md",
    "node_modules/x.md", "a/" * 13 + "x.md", "x" * 300 + ".md", "a\u2028b.md",
]
# fmt: on


@pytest.mark.parametrize("name", _BAD_NAMES)
def test_names_that_some_system_cannot_hold_or_that_lead_out_are_refused(open_memory: OpenMemory, name: str) -> None:
    memory = open_memory({"knowledge/p.md": "x"})
    with pytest.raises(PathError):
        memory.knowledge.create(name, "x")
    with pytest.raises(PathError):
        memory.knowledge.rename("p.md", name if "/" in name else f"/{name}")
    with pytest.raises(PathError):
        memory.knowledge.create_category(name.removesuffix("x.md") if name.endswith("x.md") else f"{name}/x.md")
    assert memory.knowledge.tree().pages == 1


@pytest.mark.parametrize("name", ["中文/基金 (核心).md", "über uns/naïve.md", "C#/50% [x].md", "..notes…/a&b's.md"[2:]])
def test_names_of_every_script_work_everywhere(open_memory: OpenMemory, name: str) -> None:
    memory = open_memory({"MEMORY.md": "[[x]]"})
    memory.knowledge.create("x.md", "# X")
    memory.knowledge.rename("x.md", f"/{name}")
    assert memory.knowledge.check().sound
    assert memory.knowledge.links("MEMORY.md").outgoing[0].target == f"knowledge/{name}"
    assert memory.knowledge.move(name, "").pages == (f"knowledge/{name.rpartition('/')[2]}",)
    assert memory.knowledge.check().sound


def test_two_spellings_of_one_name_are_one_name(open_memory: OpenMemory) -> None:
    memory = open_memory({f"knowledge/{unicodedata.normalize('NFD', 'café')}/a.md": "# A", "knowledge/Top.md": "x"})
    done = memory.knowledge.create("CAFÉ/b.md", "# B")
    assert len(list((memory.root / "knowledge").glob("caf*"))) == 1
    assert unicodedata.normalize("NFC", done.pages[0]) == "knowledge/café/b.md"
    with pytest.raises(ConflictError, match=r"'Top\.md' is there"):
        memory.knowledge.create("top.md", "x", overwrite=True)
    with pytest.raises(ConflictError, match="exists already"):
        memory.knowledge.create_category("Café")
    assert memory.knowledge.rename("Top.md", "TOP.md").pages == ("knowledge/TOP.md",)
    assert memory.knowledge.check().sound


def test_pages_that_are_ignored_are_neither_made_nor_struck_out_of_the_index(open_memory: OpenMemory) -> None:
    memory = open_memory(
        {
            ".vademecumignore": "knowledge/drafts/\n",
            "knowledge/drafts/d.md": "# D",
            "knowledge/index.md": "# Mine\n\n- [D](drafts/d.md)\n",
        }
    )
    with pytest.raises(PathError, match="would never be found"):
        memory.knowledge.create("drafts/x.md", "x")
    memory.knowledge.create("a.md", "# A")
    assert _page(memory, "knowledge/index.md") == "# Mine\n\n- [D](drafts/d.md)\n- [A](./a.md)\n"


def test_nothing_is_moved_unless_all_can_be(open_memory: OpenMemory) -> None:
    memory = open_memory({"knowledge/a.md": "a", "knowledge/x/b.md": "b", "knowledge/y/b.md": "c"})
    for moved in (["a.md", "missing.md"], ["a.md", "x/b.md"], ["a.md", "log.md"]):
        with pytest.raises((MissingFileError, ConflictError, PathError)):
            memory.knowledge.move(moved, "y")
    with pytest.raises(ConflictError, match="would exist twice"):
        memory.knowledge.move(["x/b.md", "y/b.md"], "z")
    assert memory.knowledge.tree().pages == 3
    assert not (memory.root / "knowledge" / "log.md").exists()
    assert memory.knowledge.move("a.md", "").pages == ()


def test_a_read_only_page_keeps_nobody_from_moving(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory(LINKED)
    (memory.root / "MEMORY.md").chmod(0o400)
    code = (
        "import sys; from vademecum import Memory\n"
        "print(*Memory.open(sys.argv[1]).knowledge.move('finance/etf.md', 'funds').notices, sep='\\n')"
    )
    told = python(code, memory.root, unprivileged=True).stdout
    assert "links could not be adapted: MEMORY.md: is write-protected" in told
    assert _page(memory, "MEMORY.md") == LINKED["MEMORY.md"]
    assert not (memory.root / "knowledge/finance/etf.md").exists()


def test_an_index_that_cannot_be_written_stops_everything_before_it_begins(open_memory: OpenMemory) -> None:
    memory = open_memory({**LINKED, "knowledge/index.md": b"\xff"})
    for call in (
        lambda: memory.knowledge.delete("finance/etf.md"),
        lambda: memory.knowledge.create("x.md", "x"),
        lambda: memory.knowledge.move("finance/etf.md", "x"),
    ):
        with pytest.raises(Exception, match=r"knowledge/index\.md: is not valid UTF-8"):
            call()
    assert (memory.root / "knowledge/finance/etf.md").exists()
    assert not (memory.root / "knowledge/x.md").exists()


# -- viewers --------------------------------------------------------------------------------------------------------

PRIVATE = {
    "knowledge/shared.md": "# Shared\n\n[[mine]]\n",
    "memory/users/ann/knowledge/mine.md": "# Mine\n\nTo [[shared]].\n",
    "memory/users/ann/MEMORY.md": "See [shared](../../../knowledge/shared.md).\n",
    "memory/users/bob/knowledge/his.md": "# His\n\nTo [[shared]] and [[mine]].\n",
}


def test_private_pages_are_in_nobody_elses_graph_links_or_reports(open_memory: OpenMemory) -> None:
    open_memory(PRIVATE)
    ann, bob, nobody = (open_memory(user=user) for user in ("ann", "bob", None))
    graph = ann.knowledge.graph()
    assert [node.id for node in graph.nodes] == ["knowledge/shared.md", "memory/users/ann/knowledge/mine.md"]
    assert [(edge.source, edge.target) for edge in graph.edges] == [(graph.nodes[1].id, graph.nodes[0].id)]
    assert [node.id for node in nobody.knowledge.graph(everything=True).nodes] == ["knowledge/shared.md"]
    assert not nobody.knowledge.links("shared.md").incoming
    assert [reference.page for reference in bob.knowledge.links("shared.md").incoming] == [
        "memory/users/bob/knowledge/his.md"
    ]
    assert all("ann" not in repr(found) for found in (bob.knowledge.check(), bob.knowledge.graph(everything=True)))
    with pytest.raises(MissingFileError):
        bob.knowledge.links("memory/users/ann/knowledge/mine.md")
    with pytest.raises(PathError):
        bob.knowledge.read("../memory/users/ann/knowledge/mine.md")
    done = bob.knowledge.rename("shared.md", "common.md")
    assert done.rewritten == ("memory/users/bob/knowledge/his.md",)
    # Yet nobody's links are left broken.
    assert _page(ann, "memory/users/ann/MEMORY.md") == "See [shared](../../../knowledge/common.md).\n"
    assert _page(ann, "memory/users/ann/knowledge/mine.md") == "# Mine\n\nTo [[common]].\n"


def test_everybody_has_pages_of_their_own(open_memory: OpenMemory) -> None:
    memory = open_memory(user="ann")
    memory.knowledge.private.create("health/allergy.md", "# Penicillin")
    assert _page(memory, "memory/users/ann/knowledge/index.md").endswith("- [Penicillin](./health/allergy.md)\n")
    assert memory.knowledge.tree().pages == 0
    assert memory.knowledge.private.tree().pages == 1
    assert paths(memory.search("penicillin", wait_ms=0))[:1] == ["memory/users/ann/knowledge/health/allergy.md"]
    assert not open_memory().search("penicillin")


# -- faults of the second seed system -------------------------------------------------------------------------------

INDEX = "# 目录\n\nHand-written.\n\n## finance\n\n- [ETFs](./finance/etf.md): the core, *in my words*\n"


def test_c52_no_operation_leaves_dead_links_in_the_index(open_memory: OpenMemory) -> None:
    memory = open_memory({**LINKED, "knowledge/index.md": INDEX})
    knowledge = memory.knowledge
    for operation in (
        lambda: knowledge.create("a/b.md", "# B"),
        lambda: knowledge.rename("finance/etf.md", "funds.md"),
        lambda: knowledge.move("finance/funds.md", "a"),
        lambda: knowledge.rename("a", "c"),
        lambda: knowledge.create_category("d/e"),
        lambda: knowledge.import_files("d", [("x.txt", b"# X")]),
        lambda: knowledge.delete("c/b.md"),
        lambda: knowledge.delete("c", recursive=True),
    ):
        operation()
        checked = knowledge.check()
        assert (checked.unlisted, checked.stale) == ((), ())


def test_c53_hand_written_summaries_in_the_index_are_kept(open_memory: OpenMemory) -> None:
    memory = open_memory({**LINKED, "knowledge/index.md": INDEX})
    memory.knowledge.create("finance/new.md", "# New")
    memory.knowledge.import_files("finance", [("more.md", b"# More")])
    memory.knowledge.rename("finance", "money")
    assert _page(memory, "knowledge/index.md") == (
        "# 目录\n\nHand-written.\n\n## metals\n\n- [Gold](./metals/gold.md)\n\n## money\n\n"
        "- [ETFs](./money/etf.md): the core, *in my words*\n- [New](./money/new.md)\n- [More](./money/more.md)\n"
    )


def test_c54_all_names_are_checked_before_anything_is_touched(open_memory: OpenMemory) -> None:
    memory = open_memory({"knowledge/a.md": "# A", "knowledge/index.md": INDEX})
    for call in (memory.knowledge.delete, lambda names: memory.knowledge.move(names, "x")):
        with pytest.raises(PathError, match=r"'index\.md': index\.md and log\.md of knowledge/ are kept"):
            call(["a.md", "index.md"])
    assert (_page(memory, "knowledge/a.md"), _page(memory, "knowledge/index.md")) == ("# A", INDEX)


def test_c55_pages_move_where_there_are_no_hard_links(open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    memory = open_memory(LINKED)
    memory.knowledge.move("finance/etf.md", "funds")
    assert memory.knowledge.check().sound


def test_c56_links_are_there_when_the_memory_is_reached_through_a_link(open_memory: OpenMemory, tmp_path: Path) -> None:
    open_memory(LINKED)
    (tmp_path / "alias").symlink_to(tmp_path / "notes")
    with Memory.open(tmp_path / "alias", settings=PATIENT) as memory:
        assert len(memory.knowledge.graph().edges) == 2
        memory.knowledge.move("finance/etf.md", "funds")
        assert memory.knowledge.check().sound


def test_c57_links_to_any_name_count_and_have_a_direction(open_memory: OpenMemory) -> None:
    memory = open_memory(
        {
            "knowledge/a.md": "# A ]title[\n\n[x \\] y](<b (1).md>) [[c]d]] [y](c%5Dd.md)\n",
            "knowledge/b (1).md": "# B\n\n[a](a.md) [a](a.md)\n",
            "knowledge/c]d.md": "# C\n",
        }
    )
    edges = [(edge.source, edge.target, edge.count) for edge in memory.knowledge.graph().edges]
    a, b, c = "knowledge/a.md", "knowledge/b (1).md", "knowledge/c]d.md"
    assert edges == [(a, b, 1), (a, c, 1), (b, a, 2)]


@pytest.mark.parametrize("name", ["INDEX.md", "Index.MD", "log.md", "LOG.md"])
def test_c58_index_and_log_are_protected_in_any_letter_case(open_memory: OpenMemory, name: str) -> None:
    memory = open_memory({"knowledge/a.md": "# A", f"knowledge/{name}": "kept"})
    for call in (
        lambda: memory.knowledge.create(name, "x", overwrite=True),
        lambda: memory.knowledge.delete(name),
        lambda: memory.knowledge.rename(name, "x.md"),
        lambda: memory.knowledge.rename("a.md", name),
    ):
        with pytest.raises(PathError, match="are kept by the knowledge base itself"):
            call()
    with pytest.raises(PathError, match=r"must not end with \.md"):
        memory.knowledge.create_category("x.md")
    assert _page(memory, f"knowledge/{name}") == "kept"
    # In a category they are names like any other.
    memory.knowledge.create(f"a/{name}", "x")


def test_c59_root_pages_count_and_an_empty_memory_has_the_same_shape(open_memory: OpenMemory) -> None:
    memory = open_memory()
    tree = memory.knowledge.tree()
    assert (tree.pages, tree.size, tree.root) == (0, 0, Category("", (), ()))
    write(memory.root, {"knowledge/a.md": "# A", "knowledge/x/y/b.md": "# Bee", "knowledge/index.md": "i"})
    tree = memory.knowledge.tree()
    assert (tree.pages, tree.size) == (2, 8)
    assert _names(tree.root) == ["/", "knowledge/a.md", "x/", "x/y/", "knowledge/x/y/b.md"]


@pytest.mark.parametrize("new", ["finance", "finance/deep", "FINANCE/x", "/finance", "finance/"])
def test_c60_a_category_cannot_go_into_itself(open_memory: OpenMemory, new: str) -> None:
    memory = open_memory(LINKED)
    with pytest.raises(UsageError, match="a category cannot go into itself"):
        memory.knowledge.rename("finance", new)
    assert (memory.root / "knowledge/finance/etf.md").exists()


def test_c61_calls_share_what_is_open(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    assert memory.knowledge is memory.knowledge
    memory.knowledge.create("a0.md", "# A")

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").glob("*")))

    before = open_files()
    for n in range(1, 6):
        memory.knowledge.create(f"a{n}.md", "# A")
        memory.knowledge.graph()
    assert open_files() == before


def test_c62_every_viewer_writes_to_the_folder_that_is_searched(open_memory: OpenMemory) -> None:
    first, second = open_memory(agent="one"), open_memory(agent="two")
    first.knowledge.create("a.md", "# A\n\nquartz")
    second.knowledge.create("b.md", "# B\n\nfeldspar")
    for memory in (first, second):
        assert "quartz" in texts(memory.search("quartz"))
        assert "feldspar" in texts(memory.search("feldspar"))
        assert memory.knowledge.tree().pages == 2
        assert memory.knowledge.read("index.md").text == "# Knowledge\n\n- [A](./a.md)\n- [B](./b.md)"


def test_asyncio_programs_have_the_same_pages(tmp_path: Path) -> None:
    async def use() -> None:
        async with await AsyncMemory.open(tmp_path, settings=PATIENT, user="ann") as memory:
            knowledge = memory.knowledge
            await asyncio.gather(*(knowledge.create(f"x/{n}.md", f"# {n}") for n in range(3)))
            await knowledge.private.create("mine.md", "[[x/1]]")
            await knowledge.import_files("y", [("4.md", b"# 4\n\n[[2]]")])
            await knowledge.create_category("z")
            await knowledge.rename("x", "w")
            await knowledge.move("w/0.md", "")
            await knowledge.delete("w/2.md")
            assert (await knowledge.tree()).pages == 3
            assert (await knowledge.read("0.md")).text == "# 0"
            assert [edge.target for edge in (await knowledge.graph()).edges] == ["knowledge/w/1.md"]
            assert len((await knowledge.links("w/1.md")).incoming) == 2
            assert [reference.label for reference in (await knowledge.check()).broken] == ["2"]

    asyncio.run(use())


# -- undo -----------------------------------------------------------------------------------------------------------


def _all(memory: Memory) -> dict[str, str]:
    return {
        path.relative_to(memory.root).as_posix(): path.read_text(encoding="utf-8") for path in memory.root.rglob("*.md")
    }


_OPERATIONS: list[Callable[[Memory], object]] = [
    lambda memory: memory.knowledge.create("finance/new.md", "# New"),
    lambda memory: memory.knowledge.create("finance/etf.md", "# Other\n\nwords", overwrite=True),
    lambda memory: memory.knowledge.import_files("in", [("a.md", b"# A"), ("b.md", b"# B")]),
    lambda memory: memory.knowledge.move(["finance/etf.md", "metals/gold.md"], "funds"),
    lambda memory: memory.knowledge.rename("finance/etf.md", "funds.md"),
    lambda memory: memory.knowledge.rename("finance", "money"),
    lambda memory: memory.knowledge.delete(["finance", "metals/gold.md"], recursive=True),
]


@pytest.mark.parametrize("operate", _OPERATIONS)
def test_an_operation_is_taken_back_as_a_whole_and_that_too(
    open_memory: OpenMemory, operate: Callable[[Memory], object]
) -> None:
    memory = open_memory({**LINKED, "knowledge/index.md": INDEX})
    memory.knowledge.create("first.md", "# First")
    before = _all(memory)
    operate(memory)
    after = _all(memory)
    undone = memory.undo()
    assert _all(memory) == before
    assert all((memory.root / path).exists() for path in paths(memory.search("ETFs gold first other words", wait_ms=0)))
    again = memory.undo(undone.id)
    assert _all(memory) == after
    assert (undone.by, again.undoes) == ("person", undone.id)
    # Each further one steps back by one operation.
    memory.undo(again.id)
    memory.undo()
    assert "First" not in _page(memory, "knowledge/index.md")
    assert not (memory.root / "knowledge/first.md").exists()
    with pytest.raises(UsageError, match="there is nothing to undo"):
        memory.undo()


def test_an_older_operation_is_taken_back_although_the_index_has_gone_on(open_memory: OpenMemory) -> None:
    memory = open_memory({**LINKED, "knowledge/index.md": INDEX})
    memory.knowledge.create("a.md", "# A")
    number = memory.log("knowledge/a.md")[0].id
    memory.knowledge.create("b.md", "# B")
    memory.knowledge.move("b.md", "x")
    memory.undo(number)
    checked = memory.knowledge.check()
    assert (checked.unlisted, checked.stale) == ((), ())
    assert "a.md" not in _page(memory, "knowledge/index.md")
    assert "- [B](./x/b.md)" in _page(memory, "knowledge/index.md")
    # What mended the index is part of that undo, and no step of its own.
    memory.undo()
    assert (memory.root / "knowledge/b.md").exists()


def test_an_operation_that_cannot_be_taken_back_whole_is_not_taken_back_at_all(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    memory.knowledge.move("finance/etf.md", "funds")
    memory.edit("MEMORY.md", "[the ETFs](knowledge/funds/etf.md#core)", "[other](knowledge/funds/etf.md)")
    before = _all(memory)
    with pytest.raises(ConflictError, match=r"MEMORY\.md: lines 1-1 were changed again"):
        memory.undo(memory.log("knowledge/funds/etf.md")[-1].id)
    assert _all(memory) == before
    memory.undo()
    memory.undo()
    assert _page(memory, "MEMORY.md") == LINKED["MEMORY.md"]
    assert (memory.root / "knowledge/finance/etf.md").exists()


def test_somebody_elses_private_links_come_back_with_an_undo_or_stand_in_no_ones_way(open_memory: OpenMemory) -> None:
    theirs = "memory/users/bob/knowledge/his.md"
    ann, bob = open_memory(PRIVATE, user="ann"), open_memory(user="bob")
    ann.knowledge.rename("shared.md", "common.md")
    assert all("bob" not in entry.path for entry in ann.log())
    ann.undo()
    assert "[[shared]]" in _page(ann, theirs)
    ann.knowledge.rename("shared.md", "common.md")
    bob.edit(theirs, "To [[common]]", "Now to [[common]]")
    ann.undo()
    assert "[[shared]]" in _page(ann, "memory/users/ann/knowledge/mine.md")
    assert "Now to [[common]]" in _page(ann, theirs)


def test_what_a_model_writes_is_known_as_such_and_holds_no_secret(open_memory: OpenMemory) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    model, person = open_memory(origin="agent"), open_memory()
    done = model.knowledge.create("a.md", f"# A\n\nkey {secret}")
    assert secret not in _page(model, "knowledge/a.md")
    assert "was blacked out" in done.notices[0]
    assert "create `a.md`" in _page(model, "knowledge/log.md")
    assert {entry.by for entry in model.log()} == {"agent"}
    # What a person wrote is theirs, also when a model moves what it links to.
    done = person.knowledge.create("b.md", f"# B\n\n{secret} [a](a.md)")
    assert "is kept as it was written" in done.notices[0]
    model.knowledge.rename("a.md", "c.md")
    assert _page(model, "knowledge/b.md") == f"# B\n\n{secret} [a](c.md)\n"


# -- other processes ------------------------------------------------------------------------------------------------


def test_processes_that_change_pages_at_once_lose_nothing(open_memory: OpenMemory) -> None:
    memory = open_memory({"knowledge/target.md": "# Target"})
    code = (
        "import sys; from vademecum import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    for n in range(3):\n"
        "        memory.knowledge.create(f'{sys.argv[2]}/{n}.md', '# T\\n\\n[[target]]')\n"
        "        memory.knowledge.rename(f'{sys.argv[2]}/{n}.md', f'p{n}.md')\n"
    )
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: python(code, memory.root, name), "abc"))
    assert memory.knowledge.tree().pages == 10
    assert memory.knowledge.check().sound
    assert len(memory.knowledge.links("target.md").incoming) == 10
    assert _page(memory, "knowledge/log.md").count("\n- ") == 18


def test_opening_a_memory_finishes_what_was_begun(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory(LINKED)
    code = (
        "import os, sys; from vademecum import Memory; from vademecum.store import files\n"
        "files.rewrite = lambda *_, **__: os._exit(9)\n"
        "Memory.open(sys.argv[1]).knowledge.move('finance/etf.md', 'funds')"
    )
    with pytest.raises(AssertionError):
        python(code, memory.root)
    assert (memory.root / "knowledge/funds/etf.md").exists()
    assert "finance/etf" in _page(memory, "MEMORY.md")
    with Memory.open(memory.root, settings=PATIENT) as later:
        assert "knowledge/funds/etf.md#core" in _page(later, "MEMORY.md")
        assert later.knowledge.check().sound
        # All of it is one operation, whoever carried it out.
        later.undo()
    assert _page(memory, "MEMORY.md") == LINKED["MEMORY.md"]


def test_a_plan_that_cannot_be_read_stops_changes_and_says_what_to_do(open_memory: OpenMemory) -> None:
    memory = open_memory(LINKED)
    (memory.root / ".vademecum/knowledge-pending.json").write_text("{")
    with pytest.raises(StoreError, match="move the file away"):
        memory.knowledge.create("x.md", "x")
    assert memory.knowledge.tree().pages == 2
