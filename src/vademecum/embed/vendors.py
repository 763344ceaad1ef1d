"""The vendors of embeddings as data: addresses, keys, models, sizes and the fields of their requests.

All speak the OpenAI protocol, each with its own accent. Sizes are the vendors' stated caps, or less where one counts
tokens: bytes are counted here, because no tokeniser makes more tokens than there are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vademecum.providers import OPENAI_URL

_OPENAI_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor.

    ``keys`` and ``addresses``: the variables that hold its key and another address, in the order in which they are
    looked up. ``root_path`` is added to an address that has no path. ``dims``: what its models give unasked at the
    vendor's own address; elsewhere a name proves nothing. ``asks``: the dimensions that its own ``model`` is asked for
    where the setting does not say. ``items``, ``request_bytes``, ``text_bytes``: the most texts a request, bytes a
    request and bytes a text. ``encoding``: the value of encoding_format, None where the field is refused.
    ``query`` and ``document``: fields that tell a question from a text. ``prompts``: by model, what is put before a
    question and before a text for the same end. ``multimodal``: part of the names of models that take one text a call
    at a path of their own.
    """

    name: str
    base_url: str = ""
    keys: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    root_path: str = ""
    needs_key: bool = True
    model: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    asks: int | None = None
    items: int = 2048
    request_bytes: int = 300_000
    text_bytes: int = 8_000
    encoding: str | None = "float"
    dimensions_field: str = "dimensions"
    query: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    multimodal: str | None = None

    def is_multimodal(self, model: str) -> bool:
        """Whether the model takes one text a call, at a path of its own."""
        return self.multimodal is not None and self.multimodal in model

    def items_of(self, model: str) -> int:
        """The most texts that a request for the model may hold."""
        return 1 if self.is_multimodal(model) else self.items

    def request(
        self, texts: Sequence[str], model: str, dimensions: int | None, *, question: bool
    ) -> tuple[str, dict[str, Any]]:
        """Path and body of the request for the vectors of ``texts``."""
        prompt = self.prompts.get(model.partition(":")[0], ("", ""))[0 if question else 1]
        asked: list[Any] = [prompt + text for text in texts]
        path = "/embeddings"
        if self.is_multimodal(model):
            asked, path = [{"type": "text", "text": text} for text in asked], "/embeddings/multimodal"
        body: dict[str, Any] = {"input": asked, "model": model, **(self.query if question else self.document)}
        if self.encoding is not None:
            body["encoding_format"] = self.encoding
        if dimensions is not None:
            body[self.dimensions_field] = dimensions
        return path, body


#: By the value of ``embedding.provider``. "openai" stands for any server that speaks the plain protocol, too.
VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            "openai",
            OPENAI_URL,
            keys=("OPENAI_API_KEY",),
            addresses=("OPENAI_BASE_URL",),
            model="text-embedding-3-small",
            dims=_OPENAI_DIMS,
        ),
        Vendor(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            model="gemini-embedding-001",
            dims={"gemini-embedding-001": 3072, "gemini-embedding-2": 3072},
            items=100,
            request_bytes=40_000,  # 20,000 tokens
            text_bytes=4_000,  # 2,048 tokens; what is beyond is cut without a word
        ),
        Vendor(
            "linkai",
            "https://api.link-ai.tech/v1",
            keys=("LINKAI_API_KEY",),
            addresses=("LINKAI_API_BASE",),
            root_path="/v1",
            model="text-embedding-3-small",
            dims=_OPENAI_DIMS,
            items=64,
        ),
        Vendor(
            "ollama",
            "http://localhost:11434/v1",
            keys=("OLLAMA_API_KEY",),
            addresses=("OLLAMA_BASE_URL",),
            root_path="/v1",
            needs_key=False,
            model="nomic-embed-text",
            text_bytes=4_000,  # models are loaded with a context of 2,048 tokens; what is beyond is cut without a word
            prompts={"nomic-embed-text": ("search_query: ", "search_document: ")},
        ),
        Vendor(
            "dashscope",
            "https://dashscope.aliyuncs.com/compatible-mode/v1",
            keys=("DASHSCOPE_API_KEY",),
            model="text-embedding-v4",
            asks=1024,
            items=10,
        ),
        Vendor(
            "doubao",
            "https://ark.cn-beijing.volces.com/api/v3",
            keys=("ARK_API_KEY",),
            addresses=("ARK_BASE_URL",),
            model="doubao-embedding-vision-251215",
            asks=1024,
            items=16,  # not stated
            multimodal="vision",
        ),
        Vendor(
            "zhipu",
            "https://open.bigmodel.cn/api/paas/v4",
            keys=("ZHIPUAI_API_KEY", "ZHIPU_API_KEY", "ZAI_API_KEY"),
            model="embedding-3",
            asks=1024,
            items=64,
            text_bytes=6_000,  # 3,072 tokens
        ),
        Vendor(
            "jina",
            "https://api.jina.ai/v1",
            keys=("JINA_API_KEY",),
            model="jina-embeddings-v3",
            dims={"jina-embeddings-v3": 1024, "jina-embeddings-v4": 2048},
            encoding=None,
            query={"task": "retrieval.query"},
            document={"task": "retrieval.passage"},
        ),
        Vendor(
            "voyage",
            "https://api.voyageai.com/v1",
            keys=("VOYAGE_API_KEY",),
            model="voyage-4",
            dims={"voyage-4": 1024, "voyage-4-large": 1024, "voyage-4-lite": 1024},
            items=1000,
            request_bytes=120_000,
            encoding=None,
            dimensions_field="output_dimension",
            query={"input_type": "query"},
            document={"input_type": "document"},
        ),
        Vendor("custom", needs_key=False),
    )
}
