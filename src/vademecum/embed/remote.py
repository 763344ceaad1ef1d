"""The embedder over an OpenAI-compatible provider."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vademecum.embed.boundary import model_text, model_texts, unit_rows
from vademecum.errors import ProviderReplyError
from vademecum.providers import OPENAI_URL, openai_client
from vademecum.providers.embeddings import embed
from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.providers.openai import OpenAIClient
    from vademecum.types import Matrix, Vector

DEFAULT_MODEL = "text-embedding-3-small"

#: OpenAI takes 8,192 tokens an input and 300,000 a request; no tokeniser of theirs makes more tokens than bytes.
MAX_TEXT_BYTES = 8_000
MAX_REQUEST_BYTES = 300_000

#: Dimensions that need no call to find out. Only at OpenAI's own address: elsewhere a name proves nothing.
_KNOWN_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

#: Priors for (lo, hi), by the start of the model's name; estimates for short English and Chinese notes, to be
#: replaced by what a store's own vectors show. The last one is for unknown models: its low ``lo`` keeps
#: ``min_score`` from hiding results.
_PRIORS = (
    ("text-embedding-3-", Calibration(0.10, 0.60)),
    ("text-embedding-ada-002", Calibration(0.70, 0.90)),
    ("", Calibration(0.10, 0.70)),
)

_QUERY_RETRIES = 1
_DOCUMENT_RETRIES = 3


class RemoteEmbedder:
    """Embedder port over HTTP; thread-safe. Nothing is loaded or called before the first use.

    ``timeout_s`` bounds a request of documents, ``query_timeout_s`` a query, both with retries and waits included.
    Texts are cut to :data:`MAX_TEXT_BYTES`. Raises the ProviderErrors of
    :func:`vademecum.providers.embeddings.embed`, and ProviderMissingError without the package ``openai``.
    """

    def __init__(
        self,
        *,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        key_name: str = "OPENAI_API_KEY",
        model: str = DEFAULT_MODEL,
        dimensions: int | None = None,
        batch_size: int = 64,
        timeout_s: float = 60.0,
        query_timeout_s: float = 10.0,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._key_name = key_name
        self._model = model
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout_s = timeout_s
        self._query_timeout_s = query_timeout_s
        self._dims = dimensions or (_KNOWN_DIMS.get(model) if base_url == OPENAI_URL else None)
        self._client: OpenAIClient | None = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> Fingerprint:
        """Names the vector space; the first time it may take one call to learn the dimensions."""
        if self._dims is None:
            self.embed_query("dimensions")
        assert self._dims is not None
        return Fingerprint("openai", self._model, self._dims, base_url=self._base_url)

    @property
    def calibration(self) -> Calibration:
        """A prior by the model's name."""
        return next(prior for start, prior in _PRIORS if self._model.startswith(start))

    @property
    def batch_size(self) -> int:
        """How many texts one call of embed_documents takes at most."""
        return self._batch_size

    def embed_query(self, text: str) -> Vector:
        """One unit vector, within ``query_timeout_s``."""
        row: Vector = self._embed([model_text(text, MAX_TEXT_BYTES)], self._query_timeout_s, _QUERY_RETRIES)[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text, in order; more than one request if the texts are too long together."""
        import numpy as np

        parts = _requests(model_texts(texts, self._batch_size, MAX_TEXT_BYTES))
        rows = [self._embed(part, self._timeout_s, _DOCUMENT_RETRIES) for part in parts]
        return np.concatenate(rows) if rows else np.empty((0, self.fingerprint.dims), dtype=np.float32)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _embed(self, texts: Sequence[str], deadline: float, retries: int) -> Matrix:
        client = self._connected()
        found = embed(client, texts, self._model, self._dimensions, deadline=deadline, retries=retries)
        rows = unit_rows(found, self._base_url)
        with self._lock:
            expected = self._dims = self._dims or rows.shape[1]
        if rows.shape[1] != expected:
            raise ProviderReplyError(
                f"{self._base_url}: model {self._model!r} gave {rows.shape[1]} dimensions, {expected} were expected; "
                "name the model that is served in embedding.model"
            )
        return rows

    def _connected(self) -> OpenAIClient:
        with self._lock:
            if self._client is None:
                self._client = openai_client(self._base_url, self._api_key, self._key_name)
            return self._client


def _requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """Consecutive texts, each group of at most MAX_REQUEST_BYTES of UTF-8."""
    group: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if group and size + length > MAX_REQUEST_BYTES:
            yield group
            group, size = [], 0
        group.append(text)
        size += length
    if group:
        yield group
