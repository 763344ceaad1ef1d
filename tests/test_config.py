"""Where settings come from, who wins, and what is said about a mistake."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum import config
from vademecum.config import load_settings
from vademecum.errors import SettingsError
from vademecum.settings import PROVIDERS, ChunkSettings, Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / ".vademecum").mkdir(parents=True)
    return folder


def write_user(home: Path, text: str) -> Path:
    file = home / ".config" / "vademecum" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def write_root(root: Path, text: str) -> Path:
    file = root / ".vademecum" / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(root: Path | None, environ: dict[str, str], overrides: dict[str, object] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(root, environ, overrides)
    return str(caught.value)


def test_nothing_given_is_the_defaults(root: Path, home: Path) -> None:
    assert load_settings(root, {"HOME": str(home)}) == Settings()
    assert load_settings(None, {}) == Settings()


def test_each_place_beats_the_one_before_and_only_for_its_own_keys(root: Path, home: Path) -> None:
    write_user(home, "[search]\nmax_results = 1\nmin_score = 0.2\nvector_weight = 0.5\n[decay]\nfloor = 0.5\n")
    write_root(root, "[search]\nmax_results = 2\nmin_score = 0.3\n[chunk]\ntokens = 300\n")
    environ = {"HOME": str(home), "VADEMECUM_SEARCH__MAX_RESULTS": "3", "VADEMECUM_SEARCH__FUSION": "rrf"}

    settings = load_settings(root, environ, {"search": {"max_results": 4}})
    assert settings.search.max_results == 4
    assert load_settings(root, environ).search.max_results == 3
    assert load_settings(root, {"HOME": str(home)}).search.max_results == 2
    assert load_settings(None, {"HOME": str(home)}).search.max_results == 1

    assert (settings.search.min_score, settings.search.vector_weight) == (0.3, 0.5)
    assert (settings.search.text_weight, settings.search.fusion) == (Settings().search.text_weight, "rrf")
    assert (settings.decay.floor, settings.decay.enabled) == (0.5, True)
    assert settings.chunk == ChunkSettings(tokens=300)


def test_the_user_file_is_where_xdg_says(home: Path, tmp_path: Path) -> None:
    write_user(home, "index_sessions = false")
    elsewhere = tmp_path / "xdg" / "vademecum" / "config.toml"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text('timezone = "Asia/Shanghai"')

    assert load_settings(None, {"HOME": str(home), "XDG_CONFIG_HOME": ""}).index_sessions is False
    assert load_settings(None, {"HOME": str(home), "XDG_CONFIG_HOME": "relative"}).index_sessions is False
    moved = load_settings(None, {"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path / "xdg")})
    assert (moved.index_sessions, moved.timezone) == (True, "Asia/Shanghai")


def sample(key: str, default: object) -> object:
    """A valid value of the key that is not its default."""
    texts = {
        "layout": "flat",
        "timezone": "Europe/Berlin",
        "search.fusion": "rrf",
        "embedding.provider": "none",
        "embedding.dimensions": 128,
        "chat.max_tokens": 1000,
        "flush.language": "zh",
        "dream.usd_per_million_tokens": 2.5,
        "roots": ("/srv/vault", "other=/srv/notes"),
        "history.max_age_days": 30.5,
        "redact.models": "off",
        "redact.persons": "redact",
        "redact.patterns": ("Project [A-Z]+", "No. [0-9]+"),
        "redact.ignore": ("token", "card number"),
    }
    if key in texts:
        return texts[key]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    return default / 2 if isinstance(default, float) else "some-text"


def fields(kind: type, instance: object, prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for field in dataclasses.fields(kind):
        value, key = getattr(instance, field.name), prefix + field.name.rstrip("_")
        found += fields(type(value), value, key + ".") if dataclasses.is_dataclass(value) else [(key, value)]
    return found


@pytest.mark.parametrize(("key", "default"), fields(Settings, Settings()), ids=str)
def test_every_field_can_be_set_from_a_file_and_from_the_environment(
    root: Path, home: Path, key: str, default: object
) -> None:
    value = sample(key, default)
    written = list(value) if isinstance(value, tuple) else value
    write_user(home, f"{key} = {str(value).lower() if isinstance(value, bool | int | float) else repr(written)}\n")
    variable = "VADEMECUM_" + key.replace(".", "__").upper()
    exported = os.pathsep.join(value) if isinstance(value, tuple) else str(value)

    for settings in (load_settings(root, {"HOME": str(home)}), load_settings(None, {variable: exported})):
        changed = [
            (found, new)
            for (found, new), (_, old) in zip(fields(Settings, settings), fields(Settings, Settings()), strict=True)
            if new != old
        ]
        assert changed == [(key, value)]
        assert type(changed[0][1]) is type(value)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("YES", True), ("1", True), ("off", False), ("False", False), ("0", False)]
)
def test_flags_in_the_environment_take_the_usual_words(text: str, value: bool) -> None:
    assert load_settings(None, {"VADEMECUM_DECAY__ENABLED": text}).decay.enabled is value


def test_empty_and_reserved_and_foreign_variables_are_not_settings() -> None:
    environ = {
        "VADEMECUM_SEARCH__MAX_RESULTS": "",
        "VADEMECUM_ROOT": "/somewhere",
        "VADEMECUM_KERNELS": "reference",
        "VADEMECUM_EVAL_DATA": "/data",
        "MAX_RESULTS": "3",
    }
    assert load_settings(None, environ) == Settings()


def test_the_first_seeds_names_are_understood_everywhere(root: Path, home: Path) -> None:
    seed = """
embeddingProvider = "none"
embeddingModel = "text-embedding-3-small"
maxSessionContextTokens = 1500
chunkTokens = 200
chunkOverlapTokens = 40
maxResults = 9
minScore = 0.25
vectorWeight = 0.6
textWeight = 0.4
watchDebounceMs = 700
indexSessions = false
temporalDecay = { enabled = false, halfLifeDays = 10 }
mmr = { enabled = false, lambda = 0.4 }
"""
    write_root(root, seed)
    write_user(home, "[search]\nmax_results = 3\n")
    ours = {
        "embedding": {"provider": "none", "model": "text-embedding-3-small"},
        "context": {"max_tokens": 1500},
        "chunk": {"tokens": 200, "overlap_tokens": 40},
        "search": {"max_results": 9, "min_score": 0.25, "vector_weight": 0.6, "text_weight": 0.4},
        "watch": {"debounce_ms": 700},
        "index_sessions": False,
        "decay": {"enabled": False, "half_life_days": 10},
        "mmr": {"enabled": False, "lambda": 0.4},
    }
    assert load_settings(root, {"HOME": str(home)}) == load_settings(None, {}, ours)
    assert load_settings(root, {}, {"search": {"max_results": 2}}).search.max_results == 2
    assert load_settings(None, {}, {"temporalDecay": {"halfLifeDays": 7}}).decay.half_life_days == 7


def test_every_alias_leads_to_a_setting() -> None:
    assert set(config.ALIASES.values()) <= set(config.keys())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("line", ["embeddingProvider = {}", "[embedding]\nprovider = {}"])
def test_every_provider_can_be_named(root: Path, line: str, provider: str) -> None:
    write_root(root, line.format(f'"{provider}"'))
    assert load_settings(root, {}).embedding.provider == provider
    assert load_settings(None, {"VADEMECUM_EMBEDDING__PROVIDER": provider}).embedding.provider == provider


def test_a_provider_that_does_not_exist_is_refused_with_those_that_do(root: Path) -> None:
    write_root(root, "embeddingProvider = 'cohere'")
    assert "dashscope" in refused(root, {})


@pytest.mark.parametrize(
    ("text", "named", "nearest"),
    [
        ("[search]\nmax_result = 3", "search.max_result", "search.max_results"),
        ("[serach]\nmax_results = 3", "serach.max_results", "search.max_results"),
        ("max_results = 3", "max_results", "search.max_results"),
        ("[mmr]\nlambda_ = 0.5", "mmr.lambda_", "mmr.lambda"),
        ("[temporalDecay]\nhalfLife = 3", "temporalDecay.halfLife", "decay.half_life_days"),
        ("[search.fusion]\nname = 'rrf'", "search.fusion.name", "search.fusion"),
        ("[decays]", "decays", "decay."),
    ],
)
def test_an_unknown_key_is_named_with_its_file_and_the_nearest_valid_one(
    root: Path, text: str, named: str, nearest: str
) -> None:
    file = write_root(root, text)
    message = refused(root, {})
    assert message.startswith(f"{named} is not a setting; the nearest one is {nearest}")
    assert f"{file}: {named}" in message


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("VADEMECUM_SEARCH__MAX_RESULT", "VADEMECUM_SEARCH__MAX_RESULTS"),
        ("VADEMECUM_SEARCH_MAX_RESULTS", "VADEMECUM_SEARCH__MAX_RESULTS"),
        ("VADEMECUM_TIME_ZONE", "VADEMECUM_TIMEZONE"),
        ("VADEMECUM_MMR__LAMBDA_", "VADEMECUM_MMR__LAMBDA"),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_valid_one(variable: str, nearest: str) -> None:
    message = refused(None, {variable: "1"})
    assert message.startswith(f"{variable} is not a setting; the nearest one is {nearest} ")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("search.max_results", '"six"', "a whole number"),
        ("search.max_results", "-1", "a whole number from 0"),
        ("search.max_results", "2.5", "a whole number"),
        ("search.max_results", "true", "a whole number"),
        ("search.min_score", "nan", "a number from 0 to 1"),
        ("search.min_score", "[0.1]", "a number from 0 to 1"),
        ("decay.enabled", '"yes"', "true or false"),
        ("search.fusion", '"best"', "calibrated"),
        ("embedding.provider", "1979-05-27", "openai"),
        ("embedding.model", '" "', "non-empty"),
        ("mmr.lambda", "1.5", "a number from 0 to 1"),
        ("timezone", '"Mars/Olympus"', "Europe/Berlin"),
        ("layout", "3", "workspace"),
        ("search", "5", "a table"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_file(root: Path, key: str, value: str, expected: str) -> None:
    file = write_root(root, f"{key} = {value}")
    message = refused(root, {})
    assert message.startswith(f"{key} = ")
    assert expected in message
    assert f"(set in {file}: {key})" in message


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("VADEMECUM_SEARCH__MAX_RESULTS", "many", "search.max_results = 'many': expected a whole number"),
        ("VADEMECUM_SEARCH__MIN_SCORE", "inf", "search.min_score = inf: expected a number"),
        ("VADEMECUM_DECAY__ENABLED", "maybe", "decay.enabled = 'maybe': expected true or false"),
        ("VADEMECUM_EMBEDDING__DIMENSIONS", "0", "embedding.dimensions = 0: expected a whole number from 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(variable: str, value: str, expected: str) -> None:
    message = refused(None, {variable: value})
    assert message.startswith(expected)
    assert variable in message


def test_values_that_only_clash_together_name_every_place(root: Path) -> None:
    file = write_root(root, "[chunk]\ntokens = 100\n")
    message = refused(root, {"VADEMECUM_CHUNK__OVERLAP_TOKENS": "90"})
    assert f"{file}: chunk.tokens" in message
    assert "VADEMECUM_CHUNK__OVERLAP_TOKENS" in message


def test_one_key_under_two_names_in_one_file_is_refused(root: Path) -> None:
    write_root(root, "maxResults = 3\n[search]\nmax_results = 4\n")
    message = refused(root, {})
    assert "search.max_results is set twice" in message
    assert "maxResults" in message


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"index_sessions = true\n\n[search\n", "line 3"),
        (b"index_sessions = true\nlayout = 'fl", "line 2"),
        (b"layout = 'flat'\r\n# \xff\r\n", "line 2"),
        (b"layout = 'flat'\nlayout = 'auto'\n", "line 2"),
        (b"timezone = " + b"9" * 5000, "not valid TOML"),
        (b"timezone = " + b"[" * 50_000, "not valid TOML"),
    ],
    ids=["open table", "open text", "not UTF-8", "key twice", "absurd number", "absurd depth"],
)
def test_invalid_toml_is_named_with_file_and_line(root: Path, raw: bytes, line: str) -> None:
    file = root / ".vademecum" / "config.toml"
    file.write_bytes(raw)
    message = refused(root, {})
    assert str(file) in message
    assert line in message


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(root: Path) -> None:
    (root / ".vademecum" / "config.toml").write_bytes(b"\xef\xbb\xbflayout = 'flat'\r\n[mmr]\r\nlambda = 0.5\r\n")
    settings = load_settings(root, {})
    assert (settings.layout, settings.mmr.lambda_) == ("flat", 0.5)


def test_a_file_that_cannot_be_read_is_named_and_a_missing_one_is_not(root: Path, tmp_path: Path) -> None:
    (root / ".vademecum" / "config.toml").mkdir()
    message = refused(root, {})
    assert str(root / ".vademecum" / "config.toml") in message
    assert "cannot be read" in message

    (tmp_path / "plain").write_text("")
    assert load_settings(tmp_path / "plain", {}) == Settings()
    assert load_settings(tmp_path / "gone", {}) == Settings()


words = st.text("aZ0. €\n", max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from([*config.keys(), *config.ALIASES, "search", "mmr", "", "mmr.lambda_", "x.y"])


@given(st.dictionaries(names, values, max_size=3))
def test_whatever_a_host_passes_is_settings_or_a_settings_error(overrides: dict[str, object]) -> None:
    try:
        assert isinstance(load_settings(None, {}, overrides), Settings)
    except SettingsError as error:
        assert "(set in " in str(error) or "set twice" in str(error)


@given(st.sampled_from(sorted(config.keys())), st.text("aZ0.-_ €\n\udcff"))
def test_whatever_a_variable_holds_is_settings_or_an_error_that_names_it(key: str, text: str) -> None:
    variable = config.PREFIX + key.replace(".", "__").upper()
    try:
        assert isinstance(load_settings(None, {variable: text}), Settings)
    except SettingsError as error:
        assert variable in str(error)


@pytest.mark.parametrize("section", ["embedding", "chat"])
@pytest.mark.parametrize("line", ['base_url = "https://example.com/v1"', 'api_key_env = "AWS_SECRET_ACCESS_KEY"'])
def test_a_folder_from_elsewhere_cannot_say_where_notes_and_keys_are_sent(
    root: Path, home: Path, line: str, section: str
) -> None:
    write_root(root, f"[{section}]\n{line}\n")
    message = refused(root, {"HOME": str(home)})
    assert line.split(maxsplit=1)[0] in message
    assert f"VADEMECUM_{section.upper()}__" in message
    write_root(root, "")
    write_user(home, f"[{section}]\n{line}\n")
    load_settings(root, {"HOME": str(home)})


def test_a_folder_from_elsewhere_cannot_have_a_key_sent_to_another_vendor(root: Path, home: Path) -> None:
    write_user(home, "[embedding]\nprovider = 'gemini'\napi_key_env = 'MY_KEY'\n")
    environ = {"HOME": str(home)}
    file = write_root(root, "[embedding]\nprovider = 'zhipu'\n")
    message = refused(root, environ)
    assert "MY_KEY" not in message
    for words in (
        "embedding.provider cannot be 'zhipu'",
        str(file),
        "embedding.api_key_env",
        "set VADEMECUM_EMBEDDING",
    ):
        assert words in message
    chosen = {**environ, "VADEMECUM_EMBEDDING__PROVIDER": "voyage"}
    assert load_settings(root, chosen).embedding.provider == "voyage", "the user's own word is above the folder's"
    write_root(root, "[embedding]\nprovider = 'local'\n")
    assert load_settings(root, environ).embedding.provider == "local"
    write_user(home, "")
    write_root(root, "[embedding]\nprovider = 'zhipu'\n")
    assert load_settings(root, environ).embedding.provider == "zhipu"


def test_an_absurd_number_is_a_settings_error(root: Path, home: Path) -> None:
    write_root(root, f"[search]\nmax_results = 1{'0' * 400}\n")
    assert "search.max_results" in refused(root, {"HOME": str(home)})


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX links and pipes")


@posix
def test_a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for(root: Path, home: Path) -> None:
    file = write_root(root, "")
    file.unlink()
    os.mkfifo(file)
    assert f"{file}: cannot be read (not a regular file)" in refused(root, {})
    own = write_user(home, "")
    own.unlink()
    os.mkfifo(own)
    assert f"{own}: cannot be read (not a regular file)" in refused(None, {"HOME": str(home)})


@posix
def test_a_users_own_file_may_be_a_link_and_a_roots_may_not(root: Path, home: Path, tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("layout = 'flat'")
    own = write_user(home, "")
    own.unlink()
    own.symlink_to(tmp_path / "real.toml")
    assert load_settings(root, {"HOME": str(home)}).layout == "flat"
    file = root / ".vademecum" / "config.toml"
    for target in (tmp_path / "real.toml", tmp_path / "nowhere"):
        file.symlink_to(target)
        assert f"{file}: is a symbolic link" in refused(root, {})
        file.unlink()
    file.parent.rmdir()
    file.parent.symlink_to(own.parent)
    assert f"{file.parent}: is a symbolic link" in refused(root, {})


def test_without_a_home_there_is_no_users_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    write_root(root, "[embedding]\nbase_url = 'https://example.com/v1'\n")
    assert load_settings(None, {}) == Settings()
    assert "your own config.toml" in refused(root, {})
