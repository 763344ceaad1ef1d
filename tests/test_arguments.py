"""What a caller gives: a wrong value is named in an error of ours, and a right one means what it says."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from embedders import HashedEmbedder
from memories import PATIENT
from vademecum.errors import PathError, StoreError, UsageError, VademecumError
from vademecum.memory import Memory, init
from vademecum.memory.filters import conditions
from vademecum.types import Viewer

HUGE = 10**5000
DAY = date(2026, 1, 11)
NAMES = ["max_results", "min_score", "since", "until", "path", "kind", "tag", "fusion", "decay", "mmr", "wait_ms"]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    root = tmp_path_factory.mktemp("notes")
    for name in ("2026-01-10", "2026-01-11", "2026-01-12", "9999-12-31"):
        file = root / "memory" / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"bond of {name}\n")
    (root / "MEMORY.md").write_text("bond for ever\n")
    with Memory.open(root, settings=PATIENT) as opened:
        yield opened


def days(memory: Memory, **options: Any) -> list[str]:
    return sorted(Path(hit.path).stem for hit in memory.search("bond", **options))


# days


def test_the_last_day_of_the_calendar_is_a_day(memory: Memory) -> None:
    dated = ["2026-01-10", "2026-01-11", "2026-01-12", "9999-12-31"]
    assert days(memory, until="9999-12-31") == days(memory, until=date.max) == days(memory, since=date.min) == dated
    assert days(memory, since="9999-12-31") == dated[-1:]


def test_a_datetime_is_its_day(memory: Memory) -> None:
    moment = datetime(2026, 1, 11, 15, 30, tzinfo=UTC)
    assert days(memory, since=moment, until=moment) == ["2026-01-11"]
    assert days(memory, since=DAY, until=moment.replace(tzinfo=None)) == ["2026-01-11"]
    assert days(memory, since=moment.replace(tzinfo=None), until="2026-01-12") == ["2026-01-11", "2026-01-12"]


def test_a_time_of_the_last_day_is_on_the_last_day() -> None:
    (_, condition) = conditions(Viewer(), DAY, until=DAY)
    assert isinstance(condition.value, str)
    for time in ("2026-01-11", "2026-01-11T23:59:59.999Z", "2026-01-11 23:59", "2026-01-11t00:00+14:00"):
        assert time < condition.value
    assert condition.value < "2026-01-12"


# wrong values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("since", 5),
        ("since", "\udce9"),
        ("until", "2026-13-45"),
        ("until", b"2026-01-01"),
        ("path", Path("memory")),
        ("path", "caf\udce9/*"),
        ("path", "*" * 60_000),
        ("path", "a\0b"),
        ("kind", 5),
        ("kind", "letter"),
        ("kind", [["daily"]]),
        ("tag", 5),
        ("tag", "\udce9"),
        ("fusion", 5),
        ("fusion", "x" * 60_000),
        ("max_results", "5"),
        ("max_results", HUGE),
        ("max_results", -1),
        ("max_results", True),
        ("min_score", float("nan")),
        ("min_score", -HUGE),
        ("min_score", "high"),
        ("wait_ms", "5"),
        ("wait_ms", 10**30),
        ("wait_ms", HUGE),
        ("wait_ms", -2),
        ("wait_ms", 0.5),
        ("wait_ms", True),
        ("decay", "no"),
        ("decay", 0),
        ("mmr", "no"),
        ("query", 5),
        ("query", None),
    ],
    ids=lambda value: value if value in NAMES else type(value).__name__,  # not every value can be printed
)
def test_a_wrong_argument_is_named_with_its_value(memory: Memory, name: str, value: Any) -> None:
    options = {"query": "bond", name: value}
    with pytest.raises(UsageError) as raised:
        memory.search(**options)
    message = str(raised.value)
    assert message.startswith(f"{name} = ")
    assert len(message) < 250
    message.encode()


def test_a_text_that_is_no_unicode_can_be_asked_for_all_the_same(memory: Memory) -> None:
    assert len(memory.search("caf\udce9 bond")) == 5


@pytest.mark.parametrize("wait_ms", [-1, 0, 3_600_000])
def test_every_wait_that_can_be_meant_is_possible(memory: Memory, wait_ms: int) -> None:
    assert memory.search("bond", wait_ms=wait_ms).disabled is None


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(alphabet=st.characters(), max_size=30),
    st.text(alphabet="[]*?^!-é/\0\ud800", max_size=12),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(),
    st.lists(st.text(max_size=3), max_size=2),
    st.just(Path("x")),
    st.just(HUGE),
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.one_of(st.just("bond"), JUNK), options=st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=3))
@example(query="bond", options={"until": date.max, "since": datetime(1, 1, 1)})  # noqa: DTZ001
@example(query="bond", options={"path": "[é" * 400, "tag": "\0"})
def test_whatever_is_given_nothing_but_our_errors_come_out(memory: Memory, query: Any, options: dict[str, Any]) -> None:
    with suppress(UsageError):
        assert memory.search(query, **options).disabled is None


# globs


def test_a_glob_finds_a_name_in_either_normalisation(tmp_path: Path) -> None:
    composed, decomposed = "Käse", unicodedata.normalize("NFD", "Käse")
    other = {name: unicodedata.normalize(form, "Brötchen.md") for name, form in (("NFC", "NFC"), ("NFD", "NFD"))}
    places = [f"{decomposed}/{other['NFD']}", f"{decomposed}/{other['NFC']}"]
    for place in places:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(f"bond {len(place)}\n")
    with Memory.open(tmp_path, settings=PATIENT) as memory:

        def found(glob: str) -> int:
            return len(memory.search("bond", path=glob))

        assert found(f"{composed}/*") == found(f"{decomposed}/*") == 2
        assert found("Käse/Brötchen.md") == found("*ö*") == found("*o\u0308*") == 2
        assert found(places[0]) == 2
        assert found("Kase/*") == found("K[ä]se/*") == found("Kåse/*") == 0


def test_many_accents_do_not_multiply_without_bound() -> None:
    (_, condition) = conditions(Viewer(), DAY, path="/".join(["é"] * 400))
    assert len(condition.value) == 2
    (_, condition) = conditions(Viewer(), DAY, path="é/ü/ascii")
    assert len(condition.value) == 4


# the folder


@pytest.mark.parametrize(
    "root",
    ["\0", "", " ", 5, None, b"notes", "~nobody-of-this-name/notes", "x" * 300, "\ud800", "a" * 100_000],
    ids=lambda value: f"{value!r:.20}",
)
@pytest.mark.parametrize("opening", [Memory.open, init])
def test_what_cannot_be_a_folder_is_named(opening: Any, root: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^root = ") as raised:
        opening(root)
    assert len(str(raised.value)) < 250
    str(raised.value).encode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["user", "agent"])
def test_an_id_that_is_no_text_is_named(tmp_path: Path, name: str) -> None:
    for value in (5, HUGE, "\udce9"):
        with pytest.raises(UsageError, match=f"^{name} = "):
            Memory.open(tmp_path / "notes", **{name: value})  # type: ignore[arg-type]
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize("given", [5, "local", object(), HashedEmbedder, print])
def test_what_is_no_embedder_is_named_before_anything_is_made(tmp_path: Path, given: Any) -> None:
    with pytest.raises(UsageError, match=r"^embedder = .* it lacks fingerprint, .*embed_documents"):
        Memory.open(tmp_path / "notes", embedder=given)


def test_an_embedder_may_hand_on_what_it_is_asked(tmp_path: Path) -> None:
    class Wrapped:
        def __getattr__(self, name: str) -> Any:
            return getattr(HashedEmbedder(), name)

    Memory.open(tmp_path / "notes", embedder=Wrapped()).close()  # type: ignore[arg-type]


def test_settings_of_another_type_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="settings = 'fast'"):
        Memory.open(tmp_path / "notes", settings="fast")  # type: ignore[arg-type]
    assert not (tmp_path / "notes").exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system refuses such names itself")
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("opening", [Memory.open, init])
def test_a_root_that_is_not_utf8_is_refused_with_the_way_out(opening: Any, tmp_path: Path, there: bool) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    if there:
        root.mkdir()
    with pytest.raises(StoreError, match=r"caf\\xe9: .*UTF-8.*rename") as raised:
        opening(root)
    str(raised.value).encode()
    assert root.exists() == there
    if there:
        assert list(root.iterdir()) == []
        (tmp_path / "link").symlink_to(root)
        with pytest.raises(StoreError, match="rename"):
            opening(tmp_path / "link")


def test_a_loop_of_links_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for opening in (Memory.open, init):
        with pytest.raises(StoreError, match="loop"):
            opening(tmp_path / "loop")


@pytest.mark.parametrize("path", ["\0.md", "x" * 300 + ".md", "caf\udce9.md", "a/" * 3000 + "b.md"])
def test_a_path_that_cannot_be_is_an_error_of_ours(memory: Memory, path: str) -> None:
    for call in (lambda: memory.get(path), lambda: memory.remember("x", file=path)):
        with pytest.raises(VademecumError):
            call()


@pytest.mark.parametrize("number", [HUGE, -HUGE, 0, -1, 1.5, True], ids=["huge", "-huge", "0", "-1", "1.5", "True"])
def test_a_number_that_no_file_or_budget_can_have_is_named(memory: Memory, number: Any) -> None:
    with pytest.raises(UsageError, match=r"^start = "):
        memory.get("long_term", start=number)
    with pytest.raises(UsageError, match=r"^lines = "):
        memory.get("long_term", lines=number)
    with pytest.raises(UsageError, match=r"^max_tokens = "):
        memory.context(max_tokens=number)


@pytest.mark.parametrize("path", ["/\ud800/x.md", "\ud800.md", "notes/\udc80/x.md"])
def test_a_path_that_is_no_unicode_is_refused(memory: Memory, path: str) -> None:
    with pytest.raises(PathError, match="not valid Unicode"):
        memory.get(path)
