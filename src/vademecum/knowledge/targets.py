"""Which page a link means, and how a link to a page is written. Pure: a page is its path."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from unicodedata import normalize
from urllib.parse import quote

from vademecum.knowledge.markup import Link
from vademecum.store.layout import knowledge_of, scope_of
from vademecum.types import SHARED

SUFFIX = ".md"

_UNSAFE = re.compile(r"[\x00-\x20\x7f\"#%&()*:<>?\[\\\]`{|}]|[^\S ]")
_UNSAFE_IN_ANCHOR = re.compile(r"[\x00-\x20\x7f\"()<>\[\\\]`|]|[^\S ]|&(?=#?\w+;)")
_UNSAFE_IN_WIKI = re.compile(r"[\[\]|#\\\r\n]")
_MARKUP = re.compile(r"[\\`*_\[\]<>|~]|&(?=#?\w+;)")


def fold(text: str) -> str:
    """What two spellings of one name have in common: letter case and Unicode normalisation do not count."""
    return normalize("NFC", normalize("NFC", text).casefold())


def stem(path: str) -> str:
    """The name of a page, without folders and ".md"."""
    name = path.rpartition("/")[2]
    return name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name


def escape(text: str) -> str:
    """``text`` as Markdown that shows just that, on one line."""
    return _MARKUP.sub(lambda match: f"\\{match[0]}", " ".join(text.split()))


def encode(path: str) -> str:
    """``path`` as the destination of a Markdown link. Letters of every script stay readable."""
    return _UNSAFE.sub(_percent, path)


def relative(page: str, target: str) -> str:
    """The path from the folder of ``page`` to ``target``."""
    return posixpath.relpath(f"/{target}", posixpath.dirname(f"/{page}"))


class Pages:
    """The pages that there are, by what links may call them.

    A link leads only to pages that are shared or have the same owner as the page on which it stands: nobody's links
    lead into what is private to somebody else.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(paths)
        self._by_path: dict[str, list[str]] = defaultdict(list)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.paths):
            self._by_path[fold(path)].append(path)
            self._by_name[fold(path.rpartition("/")[2])].append(path)

    def moved(self, moves: Mapping[str, str]) -> Pages:
        """The same pages, of which some have another path."""
        return Pages(moves.get(path, path) for path in self.paths)

    def resolve(self, page: str, link: Link) -> str | None:
        """The path that a link on ``page`` leads to; None if it leads out of the memory, or is a wiki link to no page.

        A path at which there is no page is that of another file, or of a page that is missing.
        """
        target = link.target
        if link.style == "wiki":
            return self._called(page, normalize("NFC", target.strip()))
        if not target.startswith("/"):
            path = _below(posixpath.dirname(page), target)
            return path and (self._at(page, path) or path)
        paths = [_below(base, target.lstrip("/")) for base in ("", knowledge_of(page))]
        found = (self._at(page, path) for path in paths if path)
        return next((path for path in found if path), paths[0])

    def _called(self, page: str, name: str) -> str | None:
        """The page that a wiki link means: by path, or by the last parts of it."""
        if name.startswith(("./", "../")):
            path = _below(posixpath.dirname(page), name)
            return path and self._at(page, path)
        bare = name.strip("/")
        if "/" in name:
            found = self._at(page, bare) or self._at(page, knowledge_of(page) + bare)
            if found or name.startswith("/"):
                return found
        for tail in (f"/{fold(bare)}", f"/{fold(bare + SUFFIX)}"):
            namesakes = self._by_name.get(tail.rpartition("/")[2], ())
            if found := _nearest(page, (path for path in namesakes if f"/{fold(path)}".endswith(tail))):
                return found
        return None

    def _at(self, page: str, path: str) -> str | None:
        """The page at a path, which may lack its ".md" or be spelled in another letter case."""
        for name in (normalize("NFC", path), normalize("NFC", path + SUFFIX)):
            twins = self._by_path.get(fold(name), ())
            if found := _nearest(page, [twin for twin in twins if normalize("NFC", twin) == name] or twins):
                return found
        return None

    def leads(self, page: str, link: Link, target: str) -> bool:
        """Whether a link on ``page`` leads to ``target``."""
        path = self.resolve(page, link)
        return path is not None and normalize("NFC", path) == normalize("NFC", target)

    def written(self, page: str, target: str, link: Link) -> str | None:
        """What must stand at ``link.place`` for the link to lead to ``target``, in the manner of the link.

        None for a wiki link if the name of the page cannot stand in one.
        """
        names = _wiki_names(page, target, link) if link.style == "wiki" else _paths(page, target, link)
        for name in names:
            if self.leads(page, link._replace(target=name), target):
                return name if link.style == "wiki" else encode(name) + _anchor(link)
        return None


def markdown_link(page: str, target: str, link: Link) -> str:
    """``[label](target)`` in place of a wiki link to a page whose name a wiki link cannot hold."""
    label = stem(target) if link.label == link.target else link.label
    return f"[{escape(label)}]({encode(relative(page, target))}{_anchor(link)})"


def _below(folder: str, path: str) -> str | None:
    """``path`` from ``folder`` on, both relative to the root; None if it leaves the root or is the root."""
    joined = posixpath.normpath(posixpath.join(folder, path))
    return None if joined == "." or joined.split("/")[0] in ("..", "") else joined


def _nearest(page: str, candidates: Iterable[str]) -> str | None:
    """Of pages that a link may mean: the one in the same folder, else of the same owner, else the highest up."""
    owner, folder = scope_of(page), posixpath.dirname(page)

    def distance(path: str) -> tuple[bool, bool, int, str]:
        return posixpath.dirname(path) != folder, scope_of(path) != owner, path.count("/"), path

    return min((path for path in candidates if scope_of(path) in (SHARED, owner)), key=distance, default=None)


def _paths(page: str, target: str, link: Link) -> Iterator[str]:
    """Ways to write a path, the manner of the link first."""
    home = knowledge_of(page)
    if link.target.startswith("/"):
        if target.startswith(home) and not fold(link.target).startswith(fold(f"/{home}")):
            yield f"/{target.removeprefix(home)}"
        yield f"/{target}"
    path = relative(page, target)
    yield f"./{path}" if link.target.startswith("./") and not path.startswith("../") else path


def _wiki_names(page: str, target: str, link: Link) -> Iterator[str]:
    """Ways to name a page: with as many folders as the link has, then with more."""
    if _UNSAFE_IN_WIKI.search(target) or target.strip() != target:
        return
    name = link.target.strip()
    short = target if name.lower().endswith(SUFFIX) else target[: -len(SUFFIX)]
    if name.startswith(("./", "../")):
        path = relative(page, short)
        yield path if path.startswith("../") else f"./{path}"
    parts = short.split("/")
    for count in range(name.strip("/").count("/") + 1, len(parts) + 1):
        yield "/".join(parts[-count:])
    yield f"/{short}"


def _anchor(link: Link) -> str:
    return _UNSAFE_IN_ANCHOR.sub(_percent, link.anchor)


def _percent(match: re.Match[str]) -> str:
    return quote(match[0], safe="")
