"""The ``/embeddings`` call of the OpenAI protocol: its request, and its reply in the order of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from vademecum.errors import ProviderReplyError

if TYPE_CHECKING:
    from vademecum.providers.openai import OpenAIClient


def embed(
    client: OpenAIClient, texts: Sequence[str], model: str, dimensions: int | None, *, deadline: float, retries: int
) -> list[list[float]]:
    """One row of finite numbers per text, in the order of ``texts``, all of one length; not normalised.

    ``dimensions`` is only sent if given; ``deadline`` and ``retries`` as in ``OpenAIClient.post``, whose errors are
    raised, and ProviderReplyError if the reply is not what was asked for.
    """
    if not texts:
        return []
    # "float": several compatible servers refuse base64, the protocol's default.
    body: dict[str, Any] = {"input": list(texts), "model": model, "encoding_format": "float"}
    if dimensions is not None:
        body["dimensions"] = dimensions
    reply = client.post("/embeddings", body, deadline=deadline, retries=retries)
    try:
        return rows_of(reply, len(texts), dimensions)
    except ProviderReplyError as error:
        raise ProviderReplyError(f"{client.base_url}: {error}") from None


def rows_of(body: bytes | bytearray, count: int, dimensions: int | None) -> list[list[float]]:
    """The vectors in a reply body, row i for input i; all finite, all of one length.

    Raises ProviderReplyError unless there is exactly one vector per input, of ``dimensions`` numbers if given.
    """
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
    except ValueError as error:
        raise ProviderReplyError("the reply is not JSON; check embedding.base_url") from error
    items = reply.get("data") if isinstance(reply, Mapping) else None
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
