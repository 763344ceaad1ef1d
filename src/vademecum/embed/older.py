"""The model that made the vectors in use, when the settings now ask for another one.

Until the new model's vectors are complete, the old one's answer, and for that a query has to be embedded by the old
model. It is had only if it runs on this machine, or at the very address that is configured now: what a memory's own
file says of its past decides neither where a query is sent nor who is shown a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.embed.registry import Environment, Resolution, resolve
from vademecum.embed.remote import RemoteEmbedder
from vademecum.errors import ProviderError, ProviderRefusedError, ProviderReplyError, SettingsError
from vademecum.types import Fingerprint

if TYPE_CHECKING:
    from vademecum.settings import EmbeddingSettings
    from vademecum.types import Matrix, Vector

_OFFLINE = ("local", "local-e5")


def older_embedder(key: str, wanted: Fingerprint, settings: EmbeddingSettings, environ: Environment) -> Resolution:
    """The embedder whose fingerprint has this key, or the reason why it cannot be had; ``wanted`` is the one in use."""
    old = Fingerprint.of(key)
    if old is None:
        return Resolution(None, f"nothing is known of {key}")
    if old.provider in _OFFLINE:
        found = resolve(replace(settings, provider=old.provider, model=None, dimensions=None), environ)
        return _checked(found, old)
    if (old.provider, old.base_url) != (wanted.provider, wanted.base_url):
        return Resolution(None, "it is not at the address that is configured now")
    asked = resolve(replace(settings, model=old.model, dimensions=old.dims), environ)
    plain = resolve(replace(settings, model=old.model, dimensions=None), environ)
    if not (isinstance(asked.embedder, RemoteEmbedder) and isinstance(plain.embedder, RemoteEmbedder)):
        return Resolution(None, asked.reason.removeprefix("off: ") if asked.embedder is None else "nobody else has it")
    return _checked(Resolution(_EitherWay(asked.embedder, plain.embedder), asked.reason), old)


def _checked(found: Resolution, old: Fingerprint) -> Resolution:
    try:
        if found.embedder is None or found.embedder.fingerprint == old:
            return found
    except ProviderError as error:
        return Resolution(None, str(error))
    return Resolution(None, f"what is here now is {found.embedder.fingerprint.key}")


def held_back(
    found: Resolution, settings: EmbeddingSettings, environ: Environment, serving: Fingerprint | None
) -> Resolution:
    """What "auto" may use of what it ``found``: nothing, if the model that made the vectors in use is not to be had.

    A start without a key, or without the program that brings its own embedder, is no wish for another model.
    """
    if settings.provider != "auto" or found.embedder is None or serving is None:
        return found
    try:
        known = resolve(replace(settings, provider=serving.provider), environ)
    except SettingsError:
        known = Resolution(None, "off: it was given by a program")
    address = _address(known)
    if known.embedder is not None and address in {serving.base_url, _address(found)}:
        return found
    return Resolution(
        None,
        f"off: the vectors in use are of {serving.key}, and its model cannot be had "
        f"({known.reason.removeprefix('off: ')}); to change to another one, set embedding.provider or use "
        "`vademecum sync --switch-now`",
    )


def _address(found: Resolution) -> str:
    """Where texts would be sent; "" for a model on this machine."""
    return str(getattr(found.embedder, "address", "")).partition(" ")[0]


class _EitherWay:
    """One model, asked for its dimensions by name, or without them where the server refuses that.

    Whether a lane's dimensions were once asked for or were the model's own is not recorded.
    """

    def __init__(self, asked: RemoteEmbedder, plain: RemoteEmbedder) -> None:
        self._asked = asked
        self._plain = plain
        self.fingerprint, self.calibration = asked.fingerprint, asked.calibration
        self.address, self.batch_size = asked.address, asked.batch_size
        self.max_text_bytes, self.max_request_bytes = asked.max_text_bytes, asked.max_request_bytes

    def embed_query(self, text: str) -> Vector:
        """One unit vector."""
        try:
            return self._asked.embed_query(text)
        except ProviderRefusedError:
            vector = self._plain.embed_query(text)
        self._settle(vector.shape[0])
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text, in order."""
        try:
            return self._asked.embed_documents(texts)
        except ProviderRefusedError:
            rows = self._plain.embed_documents(texts)
        self._settle(rows.shape[1])
        return rows

    def close(self) -> None:
        """Close the connections."""
        self._asked.close()
        self._plain.close()

    def _settle(self, dims: int) -> None:
        if dims != self.fingerprint.dims:
            raise ProviderReplyError(
                f"{self.fingerprint.model} gives {dims} dimensions now, not {self.fingerprint.dims}"
            )
        self._asked = self._plain
