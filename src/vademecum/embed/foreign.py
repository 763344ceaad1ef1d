"""The edge to an embedder that the host program brought along: whatever it raises becomes an ProviderError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vademecum.errors import ProviderDownError, VademecumError


@contextmanager
def own_errors() -> Iterator[None]:
    """Our errors pass; any other exception is ProviderDownError, since nothing is known of it but that it failed."""
    try:
        yield
    except VademecumError:
        raise
    except Exception as error:
        raise ProviderDownError(f"the embedder failed: {type(error).__name__}: {error}") from error
