"""The embedder over a remote provider."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vademecum.embed.batching import batches
from vademecum.embed.boundary import model_text, model_texts, unit_rows
from vademecum.embed.vendors import VENDORS, Vendor
from vademecum.errors import ProviderMissingError, ProviderReplyError
from vademecum.providers import openai_client
from vademecum.providers.embeddings import rows_of
from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.providers.openai import OpenAIClient
    from vademecum.types import Matrix, Vector

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

    What is None is the vendor's. ``timeout_s`` bounds a request of documents, ``query_timeout_s`` a query, both with
    retries and waits included; ``headers`` go with each. Texts are cut to :attr:`max_text_bytes`. Raises the errors of
    :meth:`vademecum.providers.openai.OpenAIClient.post`, and ProviderMissingError without the package ``openai``.
    """

    def __init__(
        self,
        *,
        vendor: Vendor = VENDORS["openai"],
        base_url: str | None = None,
        api_key: str | None = None,
        key_name: str = "OPENAI_API_KEY",
        model: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 64,
        timeout_s: float = 60.0,
        query_timeout_s: float = 10.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        name = model or vendor.model
        if name is None:
            raise ProviderMissingError("embedding.model is not set, and this provider has no model of its own")
        self._vendor = vendor
        self._base_url = base_url or vendor.base_url
        self._api_key = api_key
        self._key_name = key_name
        self._model = name
        self._dimensions = dimensions or (vendor.asks if name == vendor.model else None)
        self._batch_size = min(batch_size, vendor.items_of(name))
        self._timeout_s = timeout_s
        self._query_timeout_s = query_timeout_s
        self._headers = dict(headers or {})
        self._presumed: int | None = None
        self._dims = self._dimensions or (vendor.dims.get(name) if self._base_url == vendor.base_url else None)
        self._client: OpenAIClient | None = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> Fingerprint:
        """Names the vector space; the first time it may take one call to learn the dimensions."""
        if self._dims is None and self._presumed is None:
            self.embed_query("dimensions")
        dims = self._dims or self._presumed
        assert dims is not None
        return Fingerprint(self._vendor.name, self._model, dims, base_url=self._base_url)

    def presume(self, known: Fingerprint) -> None:
        """If ``known`` is of this model, its dimensions need not be asked for; the first reply decides all the same."""
        if (known.provider, known.model, known.base_url) == (self._vendor.name, self._model, self._base_url):
            self._presumed = known.dims

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    @property
    def address(self) -> str:
        """Where and by which model texts are embedded: what is learnt of one says nothing about another."""
        return f"{self._base_url} {self._model}"

    @property
    def calibration(self) -> Calibration:
        """A prior by the model's name."""
        return next(prior for start, prior in _PRIORS if self._model.startswith(start))

    @property
    def batch_size(self) -> int:
        """How many texts one call of embed_documents takes at most."""
        return self._batch_size

    @property
    def max_text_bytes(self) -> int:
        """Bytes of UTF-8 to which a text is cut."""
        return self._vendor.text_bytes

    @property
    def max_request_bytes(self) -> int:
        """Bytes of UTF-8 that one request takes at most."""
        return self._vendor.request_bytes

    def embed_query(self, text: str) -> Vector:
        """One unit vector, within ``query_timeout_s``."""
        question = [model_text(text, self.max_text_bytes)]
        row: Vector = self._embed(question, self._query_timeout_s, _QUERY_RETRIES, question=True)[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text, in order; more than one request if the texts are too long together."""
        import numpy as np

        cut = model_texts(texts, self._batch_size, self.max_text_bytes)
        parts = batches(cut, self._batch_size, self.max_request_bytes)
        rows = [self._embed(part, self._timeout_s, _DOCUMENT_RETRIES, question=False) for part in parts]
        return np.concatenate(rows) if rows else np.empty((0, self.fingerprint.dims), dtype=np.float32)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _embed(self, texts: Sequence[str], deadline: float, retries: int, *, question: bool) -> Matrix:
        path, body = self._vendor.request(texts, self._model, self._dimensions, question=question)
        client = self._connected()
        reply = client.post(path, body, deadline=deadline, retries=retries)
        rows = unit_rows(rows_of(client.base_url, reply, len(texts), self._dimensions), self._base_url)
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
                self._client = openai_client(self._base_url, self._api_key, self._key_name, headers=self._headers)
            return self._client
