"""The reply of an ``/embeddings`` call of the OpenAI protocol: checked, and put into the order of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

from vademecum.errors import ProviderReplyError


def rows_of(base_url: str, body: bytes | bytearray, count: int, dimensions: int | None) -> list[list[float]]:
    """The vectors in a reply body, row i for input i; all finite, all of one length, not normalised.

    Raises ProviderReplyError, naming the address, unless there is exactly one vector per input, of ``dimensions``
    numbers if given.
    """
    try:
        return _rows(body, count, dimensions)
    except ProviderReplyError as error:
        raise ProviderReplyError(f"{base_url}: {error}") from None


def _rows(body: bytes | bytearray, count: int, dimensions: int | None) -> list[list[float]]:
    items = _items(body)
    if len(items) != count:
        raise ProviderReplyError(f"{len(items)} vectors came back for {count} texts; none of them is used")
    rows: dict[int, list[float]] = {}
    for item in items:
        entry = item if isinstance(item, Mapping) else {}
        index = entry.get("index")
        if type(index) is not int or not 0 <= index < count or index in rows:
            raise ProviderReplyError(f"the reply's indices are not 0 to {count - 1}, once each (found {index!r})")
        rows[index] = _row(entry.get("embedding"), index)
    expected = len(rows[0]) if dimensions is None else dimensions
    for index, row in rows.items():
        if len(row) != expected:
            raise ProviderReplyError(
                f"the vector of text {index} has {len(row)} dimensions instead of {expected}; "
                "check embedding.model and embedding.dimensions"
            )
    return [rows[index] for index in range(count)]


def _items(body: bytes | bytearray) -> list[object]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderReplyError("the reply is not JSON; check embedding.base_url") from error
    items = reply.get("data") if isinstance(reply, Mapping) else None
    if isinstance(items, Mapping):  # multimodal models answer with one vector and no list
        return [{"index": 0, **items}]
    if not isinstance(items, list):
        raise ProviderReplyError('the reply has no list "data"; check embedding.base_url')
    return items


def _row(vector: object, index: int) -> list[float]:
    if not isinstance(vector, list) or not vector:
        raise ProviderReplyError(f"the vector of text {index} is not a list of numbers")
    try:
        finite = all(map(isfinite, vector))
    except (TypeError, OverflowError) as error:
        raise ProviderReplyError(f"the vector of text {index} is not a list of numbers") from error
    if not finite:
        raise ProviderReplyError(f"the vector of text {index} holds a number that is not finite")
    return vector
