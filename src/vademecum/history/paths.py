"""What conversations are called where several stand in one file: ``<file>/<conversation>``.

Whose a path is must be told by its spelling alone, so ``users/<id>/`` or ``agents/<id>/`` stands in front of what is
private. A conversation's own name is percent-encoded and so never looks like a folder or a page.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from vademecum.types import SHARED, Scope

INDEX_DB = "index.db"
OWN = "history.sqlite"

_match = re.compile(
    rf"(?P<extra>@[^/]+/)?(?P<owner>(?:users|agents)/[^/]+/)?(?P<file>(?:[^/]+/)*(?:{INDEX_DB}|{OWN}))/.+",
    re.DOTALL,
).fullmatch


def of(file: str, scope: Scope, *names: str) -> str:
    """The path of a conversation in ``file``, which is a path of the index too."""
    extra, inner = re.fullmatch(r"(@[^/]+/)?(.+)", file, re.DOTALL).groups("")  # type: ignore[union-attr]
    kind, _, owner = scope.partition(":")
    private = "" if scope == SHARED else f"{kind}s/{quote(owner, safe='@+')}/"
    return f"{extra}{private}{inner}/{'/'.join(map(_encoded, names))}"


def _encoded(name: str) -> str:
    text = quote(name, safe="@+=,", errors="surrogatepass")
    # Hidden names and pages are something else.
    return re.sub(r"^\.|\.(?=[Mm][Dd]$)", "%2E", text) or "%"


def file_of(path: str) -> str | None:
    """The file in which a conversation stands; None for the path of anything else."""
    found = _match(path)
    return f"{found['extra'] or ''}{found['file']}" if found else None
