"""The only reader of configuration files and of the environment.

Later wins, key by key at every depth: the defaults, the user's file (``$XDG_CONFIG_HOME/vademecum/config.toml``,
usually under ``~/.config``), the root's own ``.vademecum/config.toml``, variables such as
``VADEMECUM_SEARCH__MAX_RESULTS=8`` or ``VADEMECUM_TIMEZONE=Europe/Berlin``, and what the host program passes in.
The keys are the fields of :class:`~vademecum.settings.Settings`; a field's trailing underscore is not part of its key.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import stat
import tomllib
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from vademecum.errors import SettingsError, shown
from vademecum.settings import Settings

PREFIX = "VADEMECUM_"
#: Variables that are ours but not settings: the root, a server's secret, the choice of kernels, and the tests'
#: evaluation data.
RESERVED = frozenset({"VADEMECUM_ROOT", "VADEMECUM_MCP_TOKEN", "VADEMECUM_KERNELS", "VADEMECUM_EVAL_DATA"})

#: Where notes and which secret are sent, and which other folders are read. A memory folder may come from somebody else,
#: so its own file cannot say.
NOT_FROM_ROOT = frozenset({"embedding.base_url", "embedding.api_key_env", "chat.base_url", "chat.api_key_env", "roots"})

#: Providers that are sent no key; "auto" is sent the one that was named for it.
_KEYLESS = ("auto", "none", "local", "local-e5")

#: Names of Dexter's ``settings.memory``, understood wherever ours are.
ALIASES = types.MappingProxyType(
    {
        "embeddingProvider": "embedding.provider",
        "embeddingModel": "embedding.model",
        "maxSessionContextTokens": "context.max_tokens",
        "chunkTokens": "chunk.tokens",
        "chunkOverlapTokens": "chunk.overlap_tokens",
        "maxResults": "search.max_results",
        "minScore": "search.min_score",
        "vectorWeight": "search.vector_weight",
        "textWeight": "search.text_weight",
        "watchDebounceMs": "watch.debounce_ms",
        "temporalDecay.enabled": "decay.enabled",
        "temporalDecay.halfLifeDays": "decay.half_life_days",
        "indexSessions": "index_sessions",
    }
)
_WORDS_FOR = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# Without waiting, should the file be a pipe. Zero where a system does not know the flag.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class _Given(NamedTuple):
    value: object
    place: str


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def load_settings(
    root: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings in force for ``root`` (None: without a root's own file).

    ``overrides`` is nested as in a file: ``{"search": {"max_results": 8}}``.

    Raises SettingsError, naming the key, where it was set and the way out, for a file that cannot be read, an
    unknown key, and a value of the wrong type or out of range.
    """
    given: dict[str, _Given] = {}
    user_file = _user_file(environ)
    if user_file is not None:
        given |= _from_tables(_read(user_file), str(user_file))
    own = {} if root is None else _from_root(root / ".vademecum" / "config.toml", user_file)
    given |= own
    given |= _from_environment(environ)
    given |= _from_tables(overrides or {}, "overrides")
    _check_key_goes_home(given, own.get("embedding.provider"))
    settings: Settings = _build(Settings, "", given)
    return settings


def keys() -> Mapping[str, Any]:
    """Every dotted key, with the type of its field."""
    return dict(_walk(Settings, ""))


def _walk(kind: type, prefix: str) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        key, hint = prefix + field.name.rstrip("_"), hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _walk(hint, key + ".")  # type: ignore[arg-type]
        else:
            yield key, hint


def _build(kind: type, prefix: str, given: Mapping[str, _Given]) -> Any:
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    places: dict[str, str] = {}
    for field in dataclasses.fields(kind):
        key, hint = prefix + field.name.rstrip("_"), hints[field.name]
        if dataclasses.is_dataclass(hint):
            values[field.name] = _build(hint, key + ".", given)  # type: ignore[arg-type]
        elif key in given:
            values[field.name], places[key] = given[key]
    try:
        return kind(**values)
    except SettingsError as error:
        named = [place for key, place in places.items() if key in str(error)]
        raise SettingsError(f"{error} (set in {' and '.join(named)})") from error


def _from_root(file: Path, user_file: Path | None) -> dict[str, _Given]:
    for path in (file.parent, file):
        if os.path.islink(path):  # noqa: PTH114 - the method of Path raises
            raise SettingsError(f"{path}: is a symbolic link, which a memory may not have there; move it away")
    given = _from_tables(_read(file), str(file))
    for key in NOT_FROM_ROOT & given.keys():
        variable = PREFIX + key.replace(".", "__").upper()
        raise SettingsError(
            f"{key} cannot be set in {file}: whoever wrote that folder would choose where your notes and keys are "
            f"sent or which folders are read; set it in {user_file or 'your own config.toml'} or as {variable}"
        )
    return given


def _check_key_goes_home(given: Mapping[str, _Given], by_root: _Given | None) -> None:
    """A vendor chosen by the root's file must not get the key that was named for another one."""
    provider, key = given.get("embedding.provider"), given.get("embedding.api_key_env")
    if by_root is not None and provider is by_root and key is not None and by_root.value not in _KEYLESS:
        raise SettingsError(
            f"embedding.provider cannot be {shown(by_root.value)} in {by_root.place}, because embedding.api_key_env in "
            f"{key.place} names a key that may belong to another one; set {PREFIX}EMBEDDING__PROVIDER"
        )


def _from_tables(tables: Mapping[str, object], origin: str) -> dict[str, _Given]:
    known = keys()
    groups = {name.rpartition(".")[0] for name in (*known, *ALIASES) if "." in name}
    given: dict[str, _Given] = {}
    for name, value in _flat(tables, "", origin, groups):
        place = f"{origin}: {name}"
        key = ALIASES.get(name, name)
        if key not in known:
            raise _unknown(name, place, known)
        if key in given:
            raise SettingsError(f"{key} is set twice, in {given[key].place} and in {place}: keep one of them")
        given[key] = _Given(value, place)
    return given


def _flat(
    table: Mapping[str, object], prefix: str, origin: str, groups: Collection[str]
) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and (value or key in groups):
            yield from _flat(value, key + ".", origin, groups)
        elif key in groups:
            raise SettingsError(f"{key} = {value!r}: expected a table of settings (set in {origin}: {key})")
        else:
            yield key, value


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """An empty variable counts as unset, as it does in the shell."""
    variables = {PREFIX + key.replace(".", "__").upper(): (key, hint) for key, hint in keys().items()}
    given: dict[str, _Given] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in RESERVED or not text:
            continue
        if variable not in variables:
            raise _unknown(variable, "the environment", variables)
        key, hint = variables[variable]
        given[key] = _Given(_parsed(text, hint), variable)
    return given


def _parsed(text: str, hint: Any) -> object:
    """The text as its field's type; text that is none stays text, and the field's own check then says what it wants."""
    choices = get_args(hint) or (hint,)
    if get_origin(hint) is tuple:
        return tuple(filter(None, text.split(os.pathsep)))
    try:
        if bool in choices:
            return _WORDS_FOR.get(text.strip().lower(), text)
        if int in choices:
            return int(text)
        return float(text) if float in choices else text
    except ValueError:
        return text


def _unknown(name: str, place: str, valid: Iterable[str]) -> SettingsError:
    nearest = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)[0]
    return SettingsError(f"{name} is not a setting; the nearest one is {nearest} (set in {place})")


def _user_file(environ: Mapping[str, str]) -> Path | None:
    """Relative values are ignored, as the XDG Base Directory Specification asks; no home, no file."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        home = environ.get("HOME") or environ.get("USERPROFILE")
        if not home:
            return None
        base = Path(home, ".config")
    return base / "vademecum" / "config.toml"


def _read(file: Path) -> dict[str, Any]:
    try:
        with open(file, "rb", opener=lambda name, _: os.open(name, _READ)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise SettingsError(f"{file}: cannot be read (not a regular file); mend or remove it")
            raw = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read ({error.strerror}); mend or remove it") from error
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{file}: not UTF-8 at line {line}") from error
    except (ValueError, RecursionError) as error:  # the parser lets both through for absurd numbers and depths
        last = raw.count(b"\n") + 1
        problem = str(error).replace("at end of document", f"at line {last}, the end of the file")
        raise SettingsError(f"{file}: not valid TOML: {problem}") from error
