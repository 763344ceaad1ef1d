"""Batches of texts, and how one text that a provider will not take is kept from failing its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from vademecum.embed.boundary import unit_rows
from vademecum.embed.foreign import own_errors
from vademecum.errors import ProviderError, ProviderRefusedError, ProviderReplyError

if TYPE_CHECKING:
    from vademecum.ports import Embedder
    from vademecum.types import Matrix, Vector

T = TypeVar("T")

#: A text that every model takes: if this is refused too, the texts are not to blame.
_HARMLESS = "hello"


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Consecutive slices of at most ``size`` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def embed_isolating(embedder: Embedder, texts: Sequence[str]) -> tuple[list[Vector | None], list[tuple[int, str]]]:
    """Embed up to ``embedder.batch_size`` texts; a refused batch is halved until the refused texts stand alone.

    Gives one unit vector per text, None for a text that was refused, and (position, reason) for each None, in order.

    A batch too large for the provider, too, ends up embedded. Vendors word a bad key, an unknown model and a bad
    text alike (a 400 may be any of them), so the first refusal is followed by one call with a harmless text: if
    that fails as well, the refusal is raised and nothing is halved. ProviderDownError and ProviderMissingError are
    raised at once.
    """
    rows: list[Vector | None] = [None] * len(texts)
    refused: list[tuple[int, str]] = []
    todo = [(0, len(texts))] if texts else []
    sound = False
    while todo:
        start, end = todo.pop()
        try:
            rows[start:end] = _checked(embedder, texts[start:end])
            sound = True
        except (ProviderRefusedError, ProviderReplyError) as error:
            if not sound:
                _check_sound(embedder, error)
                sound = True
            if end - start == 1:
                refused.append((start, str(error)))
            else:
                middle = (start + end) // 2
                todo += [(middle, end), (start, middle)]
    return rows, refused


def _checked(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    # The embedder may be the host program's own: what it returns is checked like any other reply.
    with own_errors():
        rows = unit_rows(embedder.embed_documents(texts), "the embedder")
    if len(rows) != len(texts):
        raise ProviderReplyError(f"the embedder gave {len(rows)} vectors for {len(texts)} texts")
    return rows


def _check_sound(embedder: Embedder, error: ProviderError) -> None:
    try:
        _checked(embedder, [_HARMLESS])
    except (ProviderRefusedError, ProviderReplyError):
        raise error from None
