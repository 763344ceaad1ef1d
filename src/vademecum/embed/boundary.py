"""What goes into a model and what comes out of it: texts it can take, vectors we can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vademecum.errors import ProviderReplyError, UsageError
from vademecum.providers.sendable import sendable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from vademecum.types import Matrix


def model_text(text: str, max_bytes: int) -> str:
    """``text`` without NUL and lone surrogates, cut to ``max_bytes`` of UTF-8; never empty.

    Models end a text at NUL, raise on lone surrogates, and providers refuse the empty string: a space stands for
    it. The cap is in bytes because byte-level tokenisers never make more tokens than there are bytes.
    """
    return sendable(text).encode()[:max_bytes].decode(errors="ignore") or " "


def model_texts(texts: Sequence[str], batch_size: int, max_bytes: int) -> list[str]:
    """:func:`model_text` of each; UsageError if there are more than ``batch_size``."""
    if len(texts) > batch_size:
        raise UsageError(f"embed_documents takes at most {batch_size} texts a call, got {len(texts)}")
    return [model_text(text, max_bytes) for text in texts]


def unit_rows(rows: ArrayLike, source: str) -> Matrix:
    """Rows scaled to unit length, shape (n, dims), float32, C order.

    Raises ProviderReplyError, naming the row, if one is zero or not finite: it has no direction.
    """
    import numpy as np

    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if bad.size:
        raise ProviderReplyError(f"{source}: the vector of text {bad[0]} is zero or not finite")
    return np.ascontiguousarray(wide / lengths[:, np.newaxis], dtype=np.float32)
