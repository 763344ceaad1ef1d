"""On whose behalf the lines of a page were written, for those who are about to believe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vademecum.errors import StoreError
from vademecum.store.files import read_text
from vademecum.store.journal import Journal
from vademecum.store.origins import PERSON, UNKNOWN, least_trusted, line_key
from vademecum.store.paths import resolve
from vademecum.text.markdown import split_lines
from vademecum.types import Excerpt, Hit, Origin


def line_origins(root: Path, path: str) -> tuple[Origin, ...]:
    """The origin of each line of a page, in order. What the journal does not know was written by a person.

    Raises StoreError when page or journal cannot be read, and PathError.
    """
    location = resolve(root, path)
    with Journal(root) as journal:
        known = journal.origins(location.path)
    return tuple(known.get(line_key(line), PERSON) for line in split_lines(read_text(location).text))


def with_origins(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, each with the least trusted origin of its lines.

    What stands in a conversation is as little trusted as what was imported. Raises StoreError when the journal cannot
    be read.
    """
    with Journal(root) as journal:
        return tuple(replace(hit, origin=_origin(root, journal, hit)) for hit in hits)


def with_origin(root: Path, excerpt: Excerpt) -> Excerpt:
    """The excerpt with the least trusted origin of its lines; what cannot be told is not trusted."""
    try:
        with Journal(root) as journal:
            return replace(excerpt, origin=_least_trusted(journal.origins(excerpt.path), excerpt.text))
    except StoreError:
        return replace(excerpt, origin=UNKNOWN)


def _origin(root: Path, journal: Journal, hit: Hit) -> Origin:
    if hit.kind == "session":
        return UNKNOWN
    known = journal.origins(hit.path)
    if not known:
        return PERSON
    # A chunk may begin or end within a line; who wrote it is known of whole lines only.
    text = hit.text
    try:
        lines = split_lines(read_text(resolve(root, hit.path)).text)[hit.start_line - 1 : hit.end_line]
        text += "\n" + "".join(lines)
    except StoreError:
        pass  # gone since the search
    return _least_trusted(known, text)


def _least_trusted(known: Mapping[bytes, Origin], text: str) -> Origin:
    return least_trusted(known.get(line_key(line), PERSON) for line in split_lines(text))
