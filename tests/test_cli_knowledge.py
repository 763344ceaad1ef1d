"""`vademecum knowledge …` and `vademecum graph`: what is printed, to whom, with which exit code; and the picture."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from memories import write
from store_support import python
from vademecum.cli import main
from vademecum.knowledge.picture import to_html, to_svg
from vademecum.knowledge.records import Edge, Graph, Node

pytest.importorskip("markdown_it", reason="the package markdown-it-py is not installed (vademecum[knowledge])")


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, "one JSON object on one line"
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    pages = {
        "MEMORY.md": "[e](knowledge/finance/etf.md)\n",
        "knowledge/finance/etf.md": "# ETFs\n\n[[gold]]\n",
        "knowledge/gold.md": "# Gold\n\n[e](finance/etf.md)\n",
    }
    write(tmp_path / "notes", pages)
    monkeypatch.chdir(tmp_path / "notes")

    def run_here(*argv: object) -> Ran:
        return Ran(main([str(arg) for arg in argv]), *capfd.readouterr())

    return run_here


def test_people_see_what_was_done(run: Run) -> None:
    assert run("knowledge", "tree") == (0, "gold.md  Gold\nfinance/\n  etf.md  ETFs\n2 pages, 45 bytes\n", "")
    assert run("knowledge", "create", "a/new.md", "# New").out == "written       knowledge/a/new.md\n"
    assert run("knowledge", "create", "empty").out == "done\n"
    assert run("knowledge", "move", "finance/etf.md", "gold.md", "funds").out.splitlines() == [
        "written       knowledge/funds/etf.md",
        "written       knowledge/funds/gold.md",
        "removed       knowledge/finance/etf.md",
        "removed       knowledge/gold.md",
        "links adapted MEMORY.md",
        "links adapted knowledge/funds/gold.md",
    ]
    assert "links adapted MEMORY.md" in run("knowledge", "rename", "funds", "money").out
    assert run("knowledge", "links", "money/etf.md").out.splitlines() == [
        "knowledge/money/etf.md:3 → knowledge/money/gold.md",
        "MEMORY.md:1 → knowledge/money/etf.md",
        "knowledge/index.md:10 → knowledge/money/etf.md",
        "knowledge/money/gold.md:3 → knowledge/money/etf.md",
    ]
    assert run("knowledge", "read", "money/gold.md").out == "# Gold\n\n[e](etf.md)\n"
    done = run("knowledge", "delete", "money/etf.md")
    assert (done.code, done.out) == (0, "removed       knowledge/money/etf.md\n")
    assert "MEMORY.md:1 leads to nothing now: knowledge/money/etf.md" in done.err


def test_programs_get_one_object_from_each(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("# X")
    assert run("knowledge", "import", "in", tmp_path / "x.txt", "--json").json["pages"] == ["knowledge/in/x.md"]
    assert run("knowledge", "import", "in", tmp_path / "x.txt", "--json").json["skipped"] == ["knowledge/in/x.md"]
    assert run("knowledge", "tree", "--json").json["pages"] == 3
    assert run("knowledge", "links", "gold.md", "--json").json["incoming"][0]["page"] == "knowledge/finance/etf.md"
    assert run("knowledge", "read", "gold.md", "--json").json["total_lines"] == 3
    assert run("knowledge", "create", "b.md", "# B", "--json").json["pages"] == ["knowledge/b.md"]
    assert run("knowledge", "rename", "b.md", "c.md", "--json").json["removed"] == ["knowledge/b.md"]
    assert run("knowledge", "move", "c.md", "in", "--json").json["pages"] == ["knowledge/in/c.md"]
    assert run("knowledge", "delete", "in", "--recursive", "--json").json["broken"] == []
    graph = run("graph", "--json").json
    assert [node["label"] for node in graph["nodes"]] == ["ETFs", "Gold"]
    assert graph["categories"] == ["", "finance"]
    assert {(edge["source"], edge["target"]) for edge in graph["edges"]} == {
        ("knowledge/finance/etf.md", "knowledge/gold.md"),
        ("knowledge/gold.md", "knowledge/finance/etf.md"),
    }


def test_a_check_that_finds_faults_says_so_by_its_exit_code(run: Run) -> None:
    ran = run("knowledge", "check")
    assert (ran.code, ran.out) == (
        1,
        "not in index knowledge/finance/etf.md\nnot in index knowledge/gold.md\n",
    )
    assert run("knowledge", "check", "--fix").out == "all links lead somewhere, and the index is true\n"
    run("knowledge", "create", "sad.md", "[x](nowhere.md)")
    ran = run("knowledge", "check", "--json")
    assert ran.code == 1
    assert ran.json["broken"][0]["target"] == "knowledge/nowhere.md"
    assert ran.json["orphans"] == ["knowledge/sad.md"]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("knowledge", "create", "a.md"), 2, "a page needs a TEXT"),
        (("knowledge", "create", "a", "text"), 2, "a category, whose name has no .md, has none"),
        (("knowledge", "create", "../a.md", "x"), 2, "has an empty part, '.' or '..'"),
        (("knowledge", "create", "gold.md", "x"), 1, "exists already"),
        (("knowledge", "read", "none.md"), 1, "there is no such file"),
        (("knowledge", "delete", "finance"), 1, "delete it recursively"),
        (("knowledge", "import", "x", "none.md"), 2, "none.md: cannot be read: No such file or directory"),
        (("knowledge", "tree", "--private"), 2, "opened for a user or an agent"),
        (("knowledge", "vanish"), 2, "invalid choice"),
        (("graph", "--out", "graph.exe"), 2, "expected a name that ends with .html, .svg or .json"),
    ],
)
def test_mistakes_are_named(run: Run, argv: tuple[str, ...], code: int, message: str) -> None:
    ran = run(*argv)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_private_pages_are_worked_with_on_request(run: Run, tmp_path: Path) -> None:
    run("knowledge", "create", "mine.md", "# Mine", "--private", "--user", "ann")
    assert (tmp_path / "notes/memory/users/ann/knowledge/mine.md").exists()
    assert "mine.md" in run("knowledge", "tree", "--private", "--user", "ann").out
    assert "mine.md" not in run("knowledge", "tree").out


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"knowledge/a.md": "# A"})
    code = (
        "import sys; sys.modules['markdown_it'] = None\n"
        "from vademecum.cli import main; sys.exit(main(['--root', sys.argv[1], 'knowledge', 'tree']) != 1)"
    )
    assert "pip install 'vademecum[knowledge]'" in python(code, tmp_path).stderr


# -- the picture ----------------------------------------------------------------------------------------------------

HOSTILE = "</title><script>alert(1)</script>\"'&\x00\x1b\ud800"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _graph(count: int) -> Graph:
    nodes = tuple(Node(f"knowledge/{n}.md", f"{HOSTILE}{n}", f"c{n % 7}{HOSTILE}", "knowledge") for n in range(count))
    edges = tuple(Edge(nodes[n].id, nodes[n * n % count].id, 1) for n in range(count) if n * n % count != n)
    return Graph(nodes, edges, tuple(sorted({node.category for node in nodes})))


def test_the_picture_loads_and_runs_nothing_whatever_pages_are_called() -> None:
    page = to_html(_graph(30), HOSTILE)
    page.encode()
    tags = _Tags()
    tags.feed(page)
    assert {tag for tag, _ in tags.tags}.isdisjoint({"script", "link", "img", "iframe", "image", "foreignobject", "a"})
    names = {name for _, attributes in tags.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("href", "src", "xlink:href")}
    assert "default-src 'none'" in page
    assert not re.search(r"@import|url\((?!#arrow\))", page)


@pytest.mark.parametrize("count", [0, 1, 2, 200])
def test_every_page_and_link_is_in_the_picture_and_at_a_place_of_its_own(count: int) -> None:
    graph = _graph(count)
    tree = ElementTree.fromstring(to_svg(graph))
    tags = [element.tag.rpartition("}")[2] for element in tree.iter()]
    assert (tags.count("circle"), tags.count("line")) == (count, len(graph.edges))
    circles = [element for element in tree.iter() if element.tag.endswith("circle")]
    assert len({(circle.get("cx"), circle.get("cy")) for circle in circles}) == count
    assert to_svg(graph) == to_svg(graph)


@pytest.mark.parametrize("suffix", ["html", "svg", "json"])
def test_the_graph_is_written_where_it_is_wanted(run: Run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"graph.{suffix}"
    assert run("graph", "--out", file, "--all").out == f"{file}: 3 pages, 3 links\n"
    text = file.read_text(encoding="utf-8")
    assert ("ETFs" in text, "MEMORY" in text) == (True, True)
    if suffix == "json":
        assert len(json.loads(text)["nodes"]) == 3
