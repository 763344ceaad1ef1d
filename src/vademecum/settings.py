"""Frozen settings, one slice per room. Where they come from is config.py's business."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from vademecum.errors import SettingsError, shown

Fusion: TypeAlias = Literal["calibrated", "weighted", "rrf"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
#: Where vectors come from. "custom" is any server of the OpenAI protocol, with an address and a model of its own.
PROVIDERS = (
    *("auto", "none", "local", "local-e5"),
    *("openai", "gemini", "ollama", "linkai", "dashscope", "doubao", "zhipu", "jina", "voyage", "custom"),
)
FlushLanguage: TypeAlias = Literal["auto", "en", "zh"]
FLUSH_LANGUAGES: tuple[FlushLanguage, ...] = get_args(FlushLanguage)
LayoutName: TypeAlias = Literal["auto", "workspace", "flat"]
LAYOUTS: tuple[LayoutName, ...] = get_args(LayoutName)
RedactMode: TypeAlias = Literal["redact", "warn", "off"]
REDACT_MODES: tuple[RedactMode, ...] = get_args(RedactMode)
#: Kinds of secrets that are known by themselves.
SECRETS = ("private key", "api key", "token", "password", "secret", "card number")


def _number(key: str, value: object, low: float, high: float, *, whole: bool = False) -> None:
    kind = "a whole number" if whole else "a number"
    right_type = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not right_type or not low <= value <= high:  # type: ignore[operator]
        raise SettingsError(f"{key} = {shown(value)}: expected {kind} from {low:g} to {high:g}")


def _flag(key: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SettingsError(f"{key} = {shown(value)}: expected true or false")


def _choice(key: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SettingsError(f"{key} = {shown(value)}: expected one of {', '.join(choices)}")


def _texts(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text for text in value):
        raise SettingsError(f"{key} = {shown(value)}: expected a list of texts")
    return tuple(value)


def _text(key: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise SettingsError(f"{key} = {shown(value)}: expected a non-empty text")


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """Size of a chunk and of the overlap between neighbours, in estimated tokens."""

    tokens: int = 400
    overlap_tokens: int = 80

    def __post_init__(self) -> None:
        _number("chunk.tokens", self.tokens, 16, 100_000, whole=True)
        _number("chunk.overlap_tokens", self.overlap_tokens, 0, 50_000, whole=True)
        if self.overlap_tokens * 2 > self.tokens:
            raise SettingsError(
                f"chunk.overlap_tokens = {self.overlap_tokens}: expected at most half of chunk.tokens = {self.tokens}"
            )


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """Which embedder turns text into vectors.

    ``provider``: one of PROVIDERS; ``model``, ``dimensions`` and ``base_url`` are its own where None. ``api_key_env``
    names the environment variable that holds the key (None: the vendor's usual one); the key itself is never a setting.
    Seconds are per call.
    """

    provider: str = "auto"
    model: str | None = None
    dimensions: int | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    batch_size: int = 64
    timeout_s: float = 60.0
    query_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        _choice("embedding.provider", self.provider, PROVIDERS)
        _text("embedding.model", self.model)
        _text("embedding.base_url", self.base_url)
        _text("embedding.api_key_env", self.api_key_env)
        if self.dimensions is not None:
            _number("embedding.dimensions", self.dimensions, 1, 65_536, whole=True)
        _number("embedding.batch_size", self.batch_size, 1, 2048, whole=True)
        _number("embedding.timeout_s", self.timeout_s, 0.1, 3600)
        _number("embedding.query_timeout_s", self.query_timeout_s, 0.1, 600)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How many hits, how relevant, how the two channels are weighed, and how long a search may wait for a sync."""

    max_results: int = 6
    min_score: float = 0.1
    vector_weight: float = 0.7
    text_weight: float = 0.3
    fusion: Fusion = "calibrated"
    wait_ms: int = 300
    postings_budget: int = 8000

    def __post_init__(self) -> None:
        _number("search.max_results", self.max_results, 0, 10_000, whole=True)
        _number("search.min_score", self.min_score, 0, 1)
        _number("search.vector_weight", self.vector_weight, 0, 1e6)
        _number("search.text_weight", self.text_weight, 0, 1e6)
        if self.vector_weight + self.text_weight <= 0:
            raise SettingsError("search.vector_weight and search.text_weight are both 0: at least one must be more")
        _choice("search.fusion", self.fusion, FUSIONS)
        _number("search.wait_ms", self.wait_ms, 0, 3_600_000, whole=True)
        _number("search.postings_budget", self.postings_budget, 1, 1_000_000_000, whole=True)


@dataclass(frozen=True, slots=True)
class KindSettings:
    """What hits of each kind are worth: a factor on their relevance, applied after the floor and before age.

    ``session_share``: while notes answer too, conversations take at most this part of the places.
    """

    memory: float = 1.0
    daily: float = 1.0
    knowledge: float = 1.0
    session: float = 0.7
    session_share: float = 0.5

    def __post_init__(self) -> None:
        for key in ("memory", "daily", "knowledge", "session", "session_share"):
            _number(f"kinds.{key}", getattr(self, key), 0, 1)

    def weight(self, kind: str) -> float:
        """The factor for one kind."""
        factor: float = getattr(self, kind)
        return factor


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What is searched of conversations, where ``index_sessions`` is true.

    ``max_mb``: of a transcript that grows line by line, so much of its end; files that are written whole are not read
    if they are larger.
    """

    max_mb: int = 64

    def __post_init__(self) -> None:
        _number("sessions.max_mb", self.max_mb, 1, 4096, whole=True)


@dataclass(frozen=True, slots=True)
class AnnSettings:
    """When the optional graph of neighbours (hnswlib) takes over from the exact scan of vectors.

    ``threshold``: it does for more live rows than this. Of 384 dimensions, the scan, which is exact, takes 2.6 ms for
    100,000 rows and 13 ms for 300,000; the graph takes 2 and 3 to 5 ms, but costs 130 s of processor time and 180 MB of
    memory for each 100,000 rows. At 100,000 that would be earned back after 200,000 queries, at 300,000 after 50,000;
    at 500,000 the scan begins to be felt beside what makes the query's vector. ``min_recall``: the least share of the
    exact ten nearest that it must find, measured on the store's own vectors whenever it is built; where it finds less,
    the scan stays.
    """

    threshold: int = 500_000
    min_recall: float = 0.98

    def __post_init__(self) -> None:
        _number("ann.threshold", self.threshold, 1, 10**12, whole=True)
        _number("ann.min_recall", self.min_recall, 0, 1)


@dataclass(frozen=True, slots=True)
class DecaySettings:
    """Fading of dated notes: factor ``floor + (1 - floor) * 2 ** (-age_days / half_life_days)``."""

    enabled: bool = True
    half_life_days: float = 30.0
    floor: float = 0.9

    def __post_init__(self) -> None:
        _flag("decay.enabled", self.enabled)
        _number("decay.half_life_days", self.half_life_days, 1e-3, 1e6)
        _number("decay.floor", self.floor, 0, 1)


@dataclass(frozen=True, slots=True)
class MmrSettings:
    """Diversity: 1 is relevance alone, 0 is difference alone."""

    enabled: bool = True
    lambda_: float = 0.7

    def __post_init__(self) -> None:
        _flag("mmr.enabled", self.enabled)
        _number("mmr.lambda", self.lambda_, 0, 1)


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Which language model distils conversations and notes; none unless ``model`` is set.

    ``base_url``: any OpenAI-compatible address, OpenAI's own by default. ``api_key_env`` names the environment variable
    that holds the key (None: OPENAI_API_KEY). ``timeout_s``: seconds for a whole call, retries included.
    ``max_tokens``: the longest answer, None leaves it to the server.
    """

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_s: float = 120.0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        _text("chat.model", self.model)
        _text("chat.base_url", self.base_url)
        _text("chat.api_key_env", self.api_key_env)
        _number("chat.timeout_s", self.timeout_s, 0.1, 3600)
        if self.max_tokens is not None:
            _number("chat.max_tokens", self.max_tokens, 1, 10_000_000, whole=True)


@dataclass(frozen=True, slots=True)
class FlushSettings:
    """How conversations become notes.

    ``language`` of the prompts: "en", "zh", or "auto" for that of the conversation. ``domain``: which section says what
    matters most, "general", "finance", or one of your own in ``.vademecum/prompts/domain-<name>.<language>.txt``.
    ``window_tokens``: how much of a conversation a model is shown at once; ``max_tokens``: the longest answer; both
    estimated.
    """

    language: FlushLanguage = "auto"
    domain: str = "general"
    window_tokens: int = 12_000
    max_tokens: int = 2_000

    def __post_init__(self) -> None:
        _choice("flush.language", self.language, FLUSH_LANGUAGES)
        _text("flush.domain", self.domain or "")
        _number("flush.window_tokens", self.window_tokens, 200, 10_000_000, whole=True)
        _number("flush.max_tokens", self.max_tokens, 16, 10_000_000, whole=True)


@dataclass(frozen=True, slots=True)
class DreamSettings:
    """How daily notes are distilled into MEMORY.md at night.

    ``enabled``: off stops the schedule and leaves no files; an explicit force still runs. ``max_items`` MEMORY.md may
    have afterwards; ``max_loss``: the share of its old items that an answer may leave unmentioned. ``first_days``: how
    many days the first dream looks back on, and every later one at least. ``input_tokens`` of daily notes at a time.
    One dream ends at ``max_calls``, ``max_tokens`` (prompts and answers) or ``max_usd``, which counts only with a price
    in ``usd_per_million_tokens``.
    """

    enabled: bool = True
    max_items: int = 50
    max_loss: float = 0.25
    first_days: int = 7
    input_tokens: int = 24_000
    max_calls: int = 6
    max_tokens: int = 200_000
    usd_per_million_tokens: float = 0.0
    max_usd: float = 1.0

    def __post_init__(self) -> None:
        _flag("dream.enabled", self.enabled)
        _number("dream.max_items", self.max_items, 1, 10_000, whole=True)
        _number("dream.max_loss", self.max_loss, 0, 1)
        _number("dream.first_days", self.first_days, 1, 3650, whole=True)
        _number("dream.input_tokens", self.input_tokens, 100, 10_000_000, whole=True)
        _number("dream.max_calls", self.max_calls, 1, 1000, whole=True)
        _number("dream.max_tokens", self.max_tokens, 1, 1_000_000_000, whole=True)
        _number("dream.usd_per_million_tokens", self.usd_per_million_tokens, 0, 1e6)
        _number("dream.max_usd", self.max_usd, 0, 1e6)


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Budget for what an agent is told at the start of a session, in estimated tokens.

    Of one MEMORY.md it is never more than ``max_lines`` lines and ``max_bytes`` bytes of UTF-8: beyond these, other
    programs that read such files drop the end of it. Whoever writes past them is warned.
    """

    max_tokens: int = 2000
    max_lines: int = 200
    max_bytes: int = 25_000

    def __post_init__(self) -> None:
        _number("context.max_tokens", self.max_tokens, 1, 10_000_000, whole=True)
        _number("context.max_lines", self.max_lines, 1, 10_000_000, whole=True)
        _number("context.max_bytes", self.max_bytes, 1, 10_000_000_000, whole=True)


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """How long and how much of what pages were before they were changed is kept for undo."""

    keep_days: int = 90
    max_mb: float = 64.0

    def __post_init__(self) -> None:
        _number("journal.keep_days", self.keep_days, 1, 36_500, whole=True)
        _number("journal.max_mb", self.max_mb, 0.1, 1e6)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """``max_age_days``: sessions that have not been active for so long go by themselves; None keeps all of them.

    Pinned ones and those of the channel "web" stay in any case.
    """

    max_age_days: float | None = None

    def __post_init__(self) -> None:
        if self.max_age_days is not None:
            _number("history.max_age_days", self.max_age_days, 1, 100_000)


@dataclass(frozen=True, slots=True)
class RedactSettings:
    """What becomes of secrets in a text that is about to be written: "redact", "warn" or "off".

    ``models`` is for what an agent, a flush or a dream writes, ``persons`` for what a person writes or imports: what a
    person writes down is meant, what a model copies out of a conversation rarely is. ``patterns`` are further regular
    expressions, of which the first group, if there is one, is the secret. ``ignore`` names kinds that are none here:
    "private key", "api key", "token", "password", "secret", "card number".
    """

    models: RedactMode = "redact"
    persons: RedactMode = "warn"
    patterns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _choice("redact.models", self.models, REDACT_MODES)
        _choice("redact.persons", self.persons, REDACT_MODES)
        object.__setattr__(self, "patterns", _texts("redact.patterns", self.patterns))
        object.__setattr__(self, "ignore", _texts("redact.ignore", self.ignore))
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise SettingsError(f"redact.patterns: {shown(pattern)}: no regular expression: {error}") from None
        for kind in self.ignore:
            _choice("redact.ignore", kind, SECRETS)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How long the folder must be quiet before a change is indexed (ten times as long at most, if it never is), and how
    often it is looked at whatever the system tells: ``heartbeat_s`` where it tells of changes, ``poll_s`` where not."""

    debounce_ms: int = 1500
    heartbeat_s: float = 60.0
    poll_s: float = 5.0

    def __post_init__(self) -> None:
        _number("watch.debounce_ms", self.debounce_ms, 0, 3_600_000, whole=True)
        _number("watch.heartbeat_s", self.heartbeat_s, 0.05, 86_400)
        _number("watch.poll_s", self.poll_s, 0.05, 86_400)


@dataclass(frozen=True, slots=True)
class Settings:
    """All slices together, and what concerns the root as a whole.

    ``timezone`` is the IANA name of the zone in which "today" is meant; None takes the system's. ``roots`` are folders
    whose pages are found too and never written: absolute paths or such with "~", each known by the name of the folder
    unless it is given as NAME=PATH.
    """

    layout: LayoutName = "auto"
    timezone: str | None = None
    index_sessions: bool = True
    roots: tuple[str, ...] = ()
    chunk: ChunkSettings = field(default_factory=ChunkSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
    flush: FlushSettings = field(default_factory=FlushSettings)
    dream: DreamSettings = field(default_factory=DreamSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    kinds: KindSettings = field(default_factory=KindSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    ann: AnnSettings = field(default_factory=AnnSettings)
    decay: DecaySettings = field(default_factory=DecaySettings)
    mmr: MmrSettings = field(default_factory=MmrSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    redact: RedactSettings = field(default_factory=RedactSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)

    def __post_init__(self) -> None:
        _choice("layout", self.layout, LAYOUTS)
        _flag("index_sessions", self.index_sessions)
        _text("timezone", self.timezone)
        if not isinstance(self.roots, list | tuple):
            raise SettingsError(f'roots = {shown(self.roots)}: expected a list of folders, such as ["~/vault"]')
        object.__setattr__(self, "roots", tuple(self.roots))
        self.extra_folders()
        if self.timezone is not None:
            try:
                ZoneInfo(self.timezone)
            except (KeyError, ValueError, OSError) as error:
                raise SettingsError(
                    f'timezone = {self.timezone!r}: no such zone; use an IANA name such as "Europe/Berlin"'
                ) from error

    @property
    def zone(self) -> ZoneInfo | None:
        """The zone in which days are meant; None is the system's."""
        return ZoneInfo(self.timezone) if self.timezone else None

    def extra_folders(self) -> Mapping[str, Path]:
        """The folders of ``roots`` by name. Raises SettingsError for what is no folder's path, and for equal names."""
        named: dict[str, Path] = {}
        for entry in self.roots:
            name, folder = _named_folder(entry)
            if name.casefold() in map(str.casefold, named):
                raise SettingsError(f"roots: two folders are named {name!r}; give one another name: NAME={folder}")
            named[name] = folder
        return named


_match_named = re.compile(r"(?P<name>[^/\\=~]+)=(?P<path>.+)", re.DOTALL).fullmatch


def _named_folder(entry: object) -> tuple[str, Path]:
    wanted = 'expected the absolute path of a folder, or one such as "~/vault"'
    if not isinstance(entry, str) or not entry.isprintable():
        raise SettingsError(f"roots: {shown(entry)}: {wanted}")
    match = _match_named(entry)
    try:
        folder = Path(match["path"] if match else entry).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"roots: {shown(entry)}: {error}") from None
    if not folder.is_absolute():
        raise SettingsError(f"roots: {shown(entry)}: {wanted}")
    name = unicodedata.normalize("NFC", match["name"].strip() if match else folder.name)
    if not name or name.startswith("."):
        raise SettingsError(f"roots: {shown(entry)}: gives no name to its pages; write it as NAME={folder}")
    return name, folder
