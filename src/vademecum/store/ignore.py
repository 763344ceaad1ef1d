"""What a root's ``.vademecumignore`` keeps out of the memory: patterns as in a .gitignore (git-scm.com/docs/gitignore).

Character classes by name (``[:alpha:]``) are the one thing of git's that is not understood; such a line is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from vademecum.errors import MissingFileError
from vademecum.store.files import read_text
from vademecum.store.paths import Location

IGNORE_FILE = ".vademecumignore"

_TRAILING_BLANKS = re.compile(r"(?<!\\)[ \t]+$")
_STARS = re.compile(r"(?:^|(?<=/))\*{2,}(?P<end>/|$)|\*+")
_CLASS = re.compile(r"\[(?P<not>[!^]?)(?P<items>\]?(?:\\.|[^\\\]])*)\]")
_ITEM = re.compile(r"\\?(?P<low>.)(?:-\\?(?P<high>[^\]]))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    by_name: bool
    folders_only: bool
    lets_in: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """Decides by path, relative to the root. ``notices`` name lines that are no pattern and were skipped."""

    _rules: tuple[_Rule, ...] = ()
    notices: tuple[tuple[str, str], ...] = ()

    def folder(self, path: str) -> bool:
        """Whether a folder is kept out, with all that is in it. To be asked of its parents first."""
        return self._decide(path, True)

    def page(self, path: str) -> bool:
        """Whether a page is kept out. To be asked of its folders first."""
        return self._decide(path, False)

    def hides(self, path: str) -> bool:
        """Whether a page or one of its folders is kept out."""
        parts = path.split("/")
        return any(self.folder("/".join(parts[:end])) for end in range(1, len(parts))) or self.page(path)

    def _decide(self, path: str, is_folder: bool) -> bool:
        name = path.rpartition("/")[2]
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(name if rule.by_name else path):
                return not rule.lets_in
        return False


def ignored(root: Path) -> Ignored:
    """The rules of a root; the file is read each time.

    As in git, the last line that matches decides, and nothing in a folder that is kept out can be let in again.
    Raises UnreadableFileError: without its rules, what was meant to stay out would come in.
    """
    try:
        text = read_text(Location(IGNORE_FILE, root / IGNORE_FILE)).text
    except MissingFileError:
        return Ignored()
    return _parse(text)


@lru_cache(maxsize=8)
def _parse(text: str) -> Ignored:
    rules: list[_Rule] = []
    notices: list[tuple[str, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        pattern = _TRAILING_BLANKS.sub("", line.removesuffix("\r"))
        if not pattern or pattern.startswith("#"):
            continue
        try:
            rules.append(_rule(pattern))
        except ValueError as error:
            notices.append((IGNORE_FILE, f"{IGNORE_FILE}: line {number} ({pattern!r}) is skipped, {error}"))
    return Ignored(tuple(rules), tuple(notices))


def _rule(pattern: str) -> _Rule:
    lets_in = pattern.startswith("!")
    body = pattern.removeprefix("!")
    folders_only = body.endswith("/")
    body = body.removesuffix("/")
    by_name = "/" not in body
    return _Rule(re.compile(_expression(body.removeprefix("/")), re.DOTALL), by_name, folders_only, lets_in)


def _expression(glob: str) -> str:
    """A regular expression for one glob. Raises ValueError saying what is wrong with it."""
    if not glob:
        raise ValueError("it names nothing")
    parts: list[str] = []
    position = 0
    while position < len(glob):
        here = glob[position]
        if here == "*":
            stars = _STARS.match(glob, position)
            assert stars is not None
            parts.append({None: "[^/]*", "/": "(?:.*/)?", "": ".*"}[stars["end"]])
            position = stars.end()
        elif here == "[":
            found = _CLASS.match(glob, position)
            if found is None:
                raise ValueError("its [ is not closed")
            parts.append(_character_class(found["items"], negated=bool(found["not"])))
            position = found.end()
        elif here == "\\":
            if position + 1 == len(glob):
                raise ValueError("nothing follows its last backslash")
            parts.append(re.escape(glob[position + 1]))
            position += 2
        else:
            parts.append("[^/]" if here == "?" else re.escape(here))
            position += 1
    return "".join(parts)


def _character_class(items: str, negated: bool) -> str:
    if "[:" in items:
        raise ValueError("classes of characters have no names here")
    ranges = [(item["low"], item["high"] or item["low"]) for item in _ITEM.finditer(items)]
    inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges if low <= high)
    if not inside:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{inside}]"
