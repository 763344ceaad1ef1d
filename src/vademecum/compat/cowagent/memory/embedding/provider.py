"""Embedding providers under the host's names, over the vendors that this memory knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vademecum.embed.remote import RemoteEmbedder
from vademecum.embed.vendors import VENDORS, Vendor
from vademecum.errors import UsageError, shown

_PLACEHOLDERS = ("", "YOUR API KEY", "YOUR_API_KEY")
_TIMEOUT_S = 90.0
_OPENAI_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_DOUBAO_DIMS = (1024, 2048)
_MOST_CACHED = 4096

#: What a host may know of each vendor.
EMBEDDING_VENDORS: dict[str, dict[str, Any]] = {
    name: {
        "default_base_url": VENDORS[name].base_url,
        "default_model": VENDORS[name].model,
        "default_dimensions": dimensions,
        "supports_dim_param": True,
        "needs_client_truncate": False,
        "needs_client_normalize": False,
        "query_instruction": "",
        "max_batch_size": batch,
        **({"provider_class": "doubao"} if name == "doubao" else {}),
    }
    for name, dimensions, batch in (
        ("openai", 1536, 64),
        ("linkai", 1536, 64),
        ("dashscope", 1024, 10),
        ("doubao", 1024, 1),
        ("zhipu", 1024, 64),
    )
}
EMBEDDING_VENDORS["custom"] = {
    "default_base_url": "",
    "default_model": "",
    "default_dimensions": 1024,
    "supports_dim_param": False,
    "needs_client_truncate": False,
    "needs_client_normalize": True,
    "query_instruction": "",
    "max_batch_size": 64,
}


class EmbeddingProvider(ABC):
    """What a host's own provider derives from."""

    @abstractmethod
    def embed(self, text: str) -> list[float]:
        """The vector of one text."""

    @abstractmethod
    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of texts, in their order."""

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question; the same as for a text where the model does not tell them apart."""
        return self.embed(text)

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """How many numbers a vector has."""


class OpenAIEmbeddingProvider(EmbeddingProvider):
    """Any server of the OpenAI protocol. Vectors have unit length; a reply of another size than asked for is refused.

    Without ``dimensions``, those of OpenAI's own models are known and all others are as served. Raises UsageError
    without a key; calls raise ProviderError kinds, after retries where that can help.
    """

    _vendor = VENDORS["openai"]

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        api_key: str | None = None,
        api_base: str | None = None,
        extra_headers: Mapping[str, str] | None = None,
        dimensions: int | None = None,
        supports_dim_param: bool = True,
        needs_client_truncate: bool = False,
        needs_client_normalize: bool = False,
        query_instruction: str = "",
        max_batch_size: int = 256,
    ) -> None:
        if api_key is None or api_key in _PLACEHOLDERS:
            raise UsageError("api_key is not set: Embedding API key is not configured")
        self.model = model
        self.api_key = api_key
        self.api_base = (api_base or self._vendor.base_url).rstrip("/")
        self.extra_headers = dict(extra_headers or {})
        self.supports_dim_param = supports_dim_param
        self.needs_client_truncate = needs_client_truncate
        self.needs_client_normalize = needs_client_normalize
        self.query_instruction = query_instruction
        self.max_batch_size = max(1, max_batch_size)
        self.requested_dimensions = dimensions or _OPENAI_DIMS.get(model)
        self._embedder = RemoteEmbedder(
            vendor=self._spoken(),
            base_url=self.api_base,
            api_key=api_key,
            key_name="api_key",
            model=model,
            dimensions=self.requested_dimensions if supports_dim_param else None,
            batch_size=self.max_batch_size,
            timeout_s=_TIMEOUT_S,
            headers=self.extra_headers,
        )

    def _spoken(self) -> Vendor:
        return replace(self._vendor, name="openai", asks=None)

    def embed(self, text: str) -> list[float]:
        """See `EmbeddingProvider`."""
        return self.embed_batch([text])[0]

    def embed_query(self, text: str) -> list[float]:
        """See `EmbeddingProvider`; ``query_instruction`` goes before it."""
        return self._cut([self._embedder.embed_query(self.query_instruction + text)])[0]

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """See `EmbeddingProvider`; as many calls as it takes."""
        step = self._embedder.batch_size
        parts = [texts[start : start + step] for start in range(0, len(texts), step)]
        return [row for part in parts for row in self._cut(self._embedder.embed_documents(part))]

    @property
    def dimensions(self) -> int:
        """See `EmbeddingProvider`; where they are not known, the server is asked once."""
        return self.requested_dimensions or self._embedder.fingerprint.dims

    def _cut(self, rows: Any) -> list[list[float]]:
        from vademecum.embed.boundary import unit_rows

        wanted = self.requested_dimensions if self.needs_client_truncate else None
        unit = unit_rows([row[:wanted] for row in rows], self.api_base) if wanted else rows
        return [[float(value) for value in row] for row in unit]


class DoubaoEmbeddingProvider(OpenAIEmbeddingProvider):
    """Doubao's multimodal models, which take one text a call at a path of their own."""

    _vendor = VENDORS["doubao"]

    def __init__(
        self,
        model: str = "doubao-embedding-vision-251215",
        api_key: str | None = None,
        api_base: str | None = None,
        extra_headers: Mapping[str, str] | None = None,
        dimensions: int | None = None,
    ) -> None:
        if dimensions not in (None, *_DOUBAO_DIMS):
            raise UsageError(f"dimensions = {shown(dimensions)}: Doubao's models have 1024 or 2048")
        super().__init__(model, api_key, api_base, extra_headers, dimensions or _DOUBAO_DIMS[0], max_batch_size=1)

    def _spoken(self) -> Vendor:
        return replace(self._vendor, multimodal=self.model)


class EmbeddingCache:
    """Vectors by provider, model and text; the least lately used go first."""

    def __init__(self) -> None:
        self.cache: OrderedDict[tuple[str, str, str], list[float]] = OrderedDict()

    def get(self, text: str, provider: str, model: str) -> list[float] | None:
        """The vector, if it is known."""
        key = (provider, model, text)
        if key in self.cache:
            self.cache.move_to_end(key)
        return self.cache.get(key)

    def put(self, text: str, provider: str, model: str, embedding: list[float]) -> None:
        """Know a vector."""
        self.cache[provider, model, text] = embedding
        self.cache.move_to_end((provider, model, text))
        if len(self.cache) > _MOST_CACHED:
            self.cache.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        self.cache.clear()


def create_embedding_provider(
    provider: str = "openai",
    model: str | None = None,
    api_key: str | None = None,
    api_base: str | None = None,
    extra_headers: Mapping[str, str] | None = None,
    dimensions: int | None = None,
) -> EmbeddingProvider:
    """The provider of a vendor. Raises UsageError for an unknown one, or without a key."""
    known = EMBEDDING_VENDORS.get(provider)
    if known is None:
        raise UsageError(f"provider = {shown(provider)}: expected one of {', '.join(EMBEDDING_VENDORS)}")
    name, base = model or known["default_model"], api_base or known["default_base_url"]
    if not name or not base:
        raise UsageError(f"provider = {shown(provider)}: model and api_base have to be given")
    size = dimensions or (known["default_dimensions"] if provider != "custom" else None)
    if "provider_class" in known:
        return DoubaoEmbeddingProvider(name, api_key, base, extra_headers, size)
    fields = ("supports_dim_param", "needs_client_truncate", "needs_client_normalize", "max_batch_size")
    return OpenAIEmbeddingProvider(
        name, api_key, base, extra_headers, size, **{field: known[field] for field in fields}
    )
