"""Commands for the pages of knowledge and the links between all pages."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.cli.commands import standard_input
from vademecum.cli.grammar import CommandParser, command
from vademecum.cli.output import note, paint, plain, print_json, print_text, visible
from vademecum.cli.target import open_memory
from vademecum.errors import UsageError

if TYPE_CHECKING:
    from vademecum.knowledge import Knowledge
    from vademecum.knowledge.records import Category, Changed, Check, Reference

_BOLD, _DIM = "1", "2"
_PAGE = "a page below knowledge/, such as finance/etf.md"


def add(adding: Any) -> None:
    """`vademecum knowledge …` and `vademecum graph`."""
    _add_graph(adding)
    parser = adding.add_parser("knowledge", help="pages of knowledge by category, their index and their links")
    parser.description = "Pages of knowledge by category, their index and their links."
    inner = parser.add_subparsers(metavar="ACTION", required=True, parser_class=CommandParser)
    for one in (_tree, _read, _create, _import, _move, _rename, _delete, _links, _check):
        one(inner)


def _action(adding: Any, name: str, summary: str, run: Callable[[Namespace], int], examples: Iterable[str]) -> Any:
    parser = command(adding, name, summary, run, tuple(f"knowledge {example}" for example in examples))
    parser.add_argument("--private", action="store_true", help="in the private pages of --user or --agent")
    return parser


def _tree(adding: Any) -> None:
    _action(adding, "tree", "show all categories and pages", tree, ("tree", "tree --json"))


def _read(adding: Any) -> None:
    parser = _action(adding, "read", "print a page", read, ("read finance/etf.md", "read index.md"))
    parser.add_argument("page", metavar="PAGE", help=f"{_PAGE}, index.md or log.md")


def _create(adding: Any) -> None:
    examples = (
        'create finance/etf.md "# ETFs" --overwrite',
        "create finance/etf.md - < etf.md",
        "create finance",
    )
    parser = _action(adding, "create", "make a page or an empty category", create, examples)
    parser.add_argument("page", metavar="PAGE", help=f"{_PAGE}, or the name of a category")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what stands in the page; - reads standard input")
    parser.add_argument("--overwrite", action="store_true", help="replace a page that exists")


def _import(adding: Any) -> None:
    examples = ("import finance etf.md notes.txt", "import finance *.md --existing rename")
    parser = _action(adding, "import", "make pages of .md and .txt files", import_, examples)
    parser.add_argument("category", metavar="CATEGORY", help="where they go; / is the knowledge folder itself")
    parser.add_argument("files", metavar="FILE", nargs="+", help="files to copy in")
    what = "what to do when a page is there already (default: skip)"
    parser.add_argument("--existing", choices=("skip", "overwrite", "rename"), default="skip", help=what)


def _move(adding: Any) -> None:
    examples = ("move finance/etf.md finance/bonds.md funds", "move finance/etf.md /")
    parser = _action(adding, "move", "bring pages into a category; links to them follow", move, examples)
    parser.add_argument("pages", metavar="PAGE", nargs="+", help=_PAGE)
    parser.add_argument("category", metavar="CATEGORY", help="made if need be; / is the knowledge folder itself")


def _rename(adding: Any) -> None:
    examples = ("rename finance/etf.md funds.md", "rename finance/etf.md funds/etf.md", "rename finance money")
    parser = _action(adding, "rename", "rename a page or a category; links to it follow", rename, examples)
    parser.add_argument("page", metavar="PAGE", help=f"{_PAGE}, or a category")
    parser.add_argument("new", metavar="NEW", help="a name in the same folder, or with a / a path below knowledge/")


def _delete(adding: Any) -> None:
    examples = ("delete finance/etf.md", "delete finance --recursive")
    parser = _action(adding, "delete", "delete pages or categories; the journal keeps them", delete, examples)
    parser.add_argument("pages", metavar="PAGE", nargs="+", help=f"{_PAGE}, or a category")
    parser.add_argument("--recursive", action="store_true", help="categories with the pages in them")


def _links(adding: Any) -> None:
    examples = ("links finance/etf.md", "links MEMORY.md --json")
    parser = _action(adding, "links", "show the links of a page, and those to it", links, examples)
    parser.add_argument("page", metavar="PAGE", help=f"{_PAGE}, or any other page of the memory")


def _check(adding: Any) -> None:
    summary = "look for broken links, lonely pages and faults of index.md; exit code 1 if links or index are wrong"
    parser = _action(adding, "check", summary, check, ("check", "check --fix"))
    parser.add_argument("--fix", action="store_true", help="bring index.md up to the pages first")


def _add_graph(adding: Any) -> None:
    examples = ("graph --out graph.html", "graph --out graph.svg --all", "graph --json")
    parser = command(adding, "graph", "show which pages link to which, as a picture or as JSON", graph, examples)
    parser.add_argument("--out", metavar="FILE", help="write a picture there: .html, .svg, or .json for the data")
    parser.add_argument("--all", action="store_true", help="all pages of the memory, not only those of knowledge")


@contextmanager
def _knowledge(args: Namespace) -> Iterator[Knowledge]:
    with open_memory(args) as memory:
        yield memory.knowledge.private if args.private else memory.knowledge


# -- what each command does -------------------------------------------------------------------------------------


def tree(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        found = knowledge.tree()
    if args.json:
        print_json(found)
        return 0
    _show_category(found.root, 0)
    print(paint(f"{found.pages} pages, {found.size} bytes", _DIM))
    return 0


def _show_category(category: Category, depth: int) -> None:
    if category.name:
        name = category.name.rpartition("/")[2]
        print("  " * depth + paint(f"{name}/", _BOLD))
        depth += 1
    for page in category.pages:
        name = page.path.rpartition("/")[2]
        print("  " * depth + visible(f"{name}  ") + paint(page.title, _DIM))
    for inner in category.categories:
        _show_category(inner, depth)


def read(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        excerpt = knowledge.read(args.page)
    if args.json:
        print_json(excerpt)
    else:
        print_text(excerpt.text)
        if excerpt.truncated:
            note(f"{excerpt.path}: cut after line {excerpt.end_line} of {excerpt.total_lines}; see `vademecum get`")
    return 0


def create(args: Namespace) -> int:
    is_page = args.page.lower().endswith(".md")
    if is_page == (args.text is None):
        raise UsageError(
            "a page needs a TEXT (- reads standard input), and a category, whose name has no .md, has none"
        )
    text = standard_input() if args.text == "-" else args.text
    with _knowledge(args) as knowledge:
        if text is None:
            return _changed(knowledge.create_category(args.page), args)
        return _changed(knowledge.create(args.page, text, overwrite=args.overwrite), args)


def import_(args: Namespace) -> int:
    from vademecum.knowledge.planning import MOST_FILE_BYTES

    files = []
    for name in args.files:
        try:
            with Path(name).open("rb") as stream:
                files.append((Path(name).name, stream.read(MOST_FILE_BYTES + 1)))
        except OSError as error:
            raise UsageError(f"{name}: cannot be read: {error.strerror}; nothing was imported") from error
    with _knowledge(args) as knowledge:
        return _changed(knowledge.import_files(args.category, files, existing=args.existing), args)


def move(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        return _changed(knowledge.move(args.pages, args.category), args)


def rename(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        return _changed(knowledge.rename(args.page, args.new), args)


def delete(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        return _changed(knowledge.delete(args.pages, recursive=args.recursive), args)


def _changed(done: Changed, args: Namespace) -> int:
    if args.json:
        print_json(done)
    else:
        rows = {
            "written": done.pages,
            "removed": done.removed,
            "links adapted": done.rewritten,
            "skipped": done.skipped,
        }
        for name, paths in rows.items():
            for path in paths:
                print(f"{paint(f'{name:<13}', _DIM)} {visible(path)}")
        if not any(rows.values()):
            print("done")
    for reference in done.broken:
        note(f"{_where(reference)} leads to nothing now: {reference.target}")
    for notice in done.notices:
        note(notice)
    return 0


def links(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        found = knowledge.links(args.page)
    if args.json:
        print_json(found)
        return 0
    for reference in found.outgoing:
        missing = "  (missing)" if reference.missing else ""
        print(f"{found.path}:{reference.line} → {visible(reference.target)}{missing}")
    for reference in found.incoming:
        print(f"{_where(reference)} → {found.path}")
    if not (found.outgoing or found.incoming):
        print("no links")
    return 0


def check(args: Namespace) -> int:
    with _knowledge(args) as knowledge:
        found = knowledge.check(fix=args.fix)
    if args.json:
        print_json(found)
    else:
        _show_check(found)
    for notice in found.notices:
        note(notice)
    return 0 if found.sound else 1


def _show_check(found: Check) -> None:
    for reference in found.broken:
        print(f"broken link  {_where(reference)} → {visible(reference.target)}")
    for path in found.unlisted:
        print(f"not in index {visible(path)}")
    for reference in found.stale:
        print(f"index link   {_where(reference)} → {visible(reference.target)}")
    for path in found.orphans:
        print(f"no link to   {visible(path)}")
    if found.sound and not found.orphans:
        print("all links lead somewhere, and the index is true")


def _where(reference: Reference) -> str:
    return visible(f"{reference.page}:{reference.line}")


def graph(args: Namespace) -> int:
    from vademecum.knowledge.picture import to_html, to_svg

    suffix = "" if args.out is None else Path(args.out).suffix.lower()
    if args.out is not None and suffix not in (".html", ".htm", ".svg", ".json"):
        raise UsageError(f"--out {args.out}: expected a name that ends with .html, .svg or .json")
    with open_memory(args) as memory:
        found, title = memory.knowledge.graph(everything=args.all), memory.root.name
    if args.out is not None:
        if suffix == ".json":
            text = json.dumps(found, default=plain, ensure_ascii=False, indent=1) + "\n"
        else:
            text = to_svg(found) if suffix == ".svg" else to_html(found, title)
        Path(args.out).write_text(text, encoding="utf-8")
    if args.json:
        print_json(found)
    elif args.out is not None:
        print(visible(f"{args.out}: {len(found.nodes)} pages, {len(found.edges)} links"))
    else:
        for edge in found.edges:
            print(visible(f"{edge.source} → {edge.target}"))
        print(paint(f"{len(found.nodes)} pages, {len(found.edges)} links; --out FILE draws them", _DIM))
    return 0
