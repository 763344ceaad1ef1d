"""The provider that the host's config.json asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vademecum.compat.cowagent.host import host
from vademecum.compat.cowagent.memory.embedding.provider import (
    EMBEDDING_VENDORS,
    EmbeddingProvider,
    create_embedding_provider,
)
from vademecum.errors import UsageError

#: Where a vendor's key and address stand in the host's settings.
_KEYS = {
    "openai": ("open_ai_api_key", "open_ai_api_base"),
    "linkai": ("linkai_api_key", "linkai_api_base"),
    "dashscope": ("dashscope_api_key", ""),
    "doubao": ("ark_api_key", "ark_base_url"),
    "zhipu": ("zhipu_ai_api_key", "zhipu_ai_api_base"),
}
_CUSTOM = "custom"


def create_default_embedding_provider() -> EmbeddingProvider | None:
    """The configured provider; None, with the reason in the host's log, if it cannot be had.

    Without ``embedding_provider``: OpenAI if its key is set, else LinkAI if its key is set, else none. Nothing is
    called, and no variable of the environment is looked at.
    """
    asked = str(_conf("embedding_provider", "") or "").strip()
    if not asked:
        asked = next((name for name in ("openai", "linkai") if _key(name)), "")
        if not asked:
            return None
        return _made(asked, _entry(asked), None, None)
    model, dimensions = str(_conf("embedding_model", "") or "") or None, _whole(_conf("embedding_dimensions", 0))
    vendor, _, name = asked.partition(":")
    if vendor == _CUSTOM:
        entry = host().custom_provider(name) or {}
        return _made(_CUSTOM, entry, model or entry.get("model"), dimensions)
    if vendor not in EMBEDDING_VENDORS:
        host().logger.error(f"[Memory] embedding_provider {asked!r}: expected one of {', '.join(EMBEDDING_VENDORS)}")
        return None
    return _made(vendor, _entry(vendor), model, dimensions)


def _made(vendor: str, entry: Mapping[str, Any], model: str | None, dimensions: int | None) -> EmbeddingProvider | None:
    base = entry.get("api_base") or None
    try:
        return create_embedding_provider(vendor, model, entry.get("api_key"), base, None, dimensions)
    except UsageError as error:
        host().logger.error(f"[Memory] no embeddings, search is by words alone: {error}")
        return None


def _entry(vendor: str) -> dict[str, Any]:
    base = _KEYS[vendor][1]
    return {"api_key": _key(vendor), "api_base": _conf(base, "") if base else ""}


def _key(vendor: str) -> str:
    found = str(_conf(_KEYS[vendor][0], "") or "").strip()
    return "" if found in ("YOUR API KEY", "YOUR_API_KEY") else found


def _conf(key: str, default: object) -> Any:
    return host().conf(key, default)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
