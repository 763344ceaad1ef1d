"""LangGraph's store over Markdown: what it answers is what the framework's own store in memory answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from frameworks import need
from loopback import Loopback
from memories import PATIENT, OpenMemory
from recipes import RULE, follow, gpt, recalled
from vademecum import Memory
from vademecum.errors import UnreadableFileError, UsageError

need("langgraph", "langgraph")

import openai
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from vademecum.tools.adapters.langgraph import MarkdownStore

_labels = st.sampled_from(["a", "users", "ann@example", "条目", "a b", "%41", "..", "-", "x/y", "CON", "é", "e\u0301"])
_namespaces = st.lists(_labels.filter(lambda label: "." not in label), min_size=1, max_size=3).map(tuple)
_keys = _labels | st.sampled_from(["k", ".hidden", "k.md", "2026-11-30", "a\nb", "a\\b"])
_values = st.dictionaries(
    st.sampled_from(["n", "text", "deep"]),
    st.integers(0, 3) | st.text(max_size=5) | st.lists(st.booleans(), max_size=2) | st.just({"n": 1}),
)
_filters = st.none() | st.sampled_from(
    [{"n": 1}, {"n": {"$ne": 1}}, {"n": {"$eq": 2}}, {"deep": {"n": 1}}, {"text": "", "n": 0}]
)
_conditions = st.builds(
    MatchCondition,
    match_type=st.sampled_from(["prefix", "suffix"]),
    path=st.lists(_labels | st.just("*"), min_size=1, max_size=2).map(tuple),
)
_ops = st.one_of(
    st.builds(PutOp, _namespaces, _keys, _values),
    st.builds(PutOp, _namespaces, _keys, st.none()),
    st.builds(GetOp, _namespaces, _keys),
    st.builds(SearchOp, st.just(()) | _namespaces, _filters, st.just(100)),
    st.builds(
        ListNamespacesOp, st.none() | st.lists(_conditions, max_size=2).map(tuple), st.none() | st.integers(1, 3)
    ),
)


def plain(result: Any) -> Any:
    """What two stores must agree about: not the times, nor the order of what was not ranked."""
    if isinstance(result, list):
        return sorted((plain(item) for item in result), key=repr)
    return (result.namespace, result.key, result.value) if hasattr(result, "key") else result


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
@given(st.lists(_ops, min_size=5, max_size=20))
def test_any_operations_are_answered_as_by_the_frameworks_own_store(
    tmp_path_factory: pytest.TempPathFactory, ops: list[Any]
) -> None:
    theirs = InMemoryStore()
    with Memory.open(tmp_path_factory.mktemp("store") / "notes", settings=PATIENT) as memory:
        ours = MarkdownStore(memory)
        for op in ops:
            if isinstance(op, ListNamespacesOp):
                # Theirs keeps namespaces of which nothing is left.
                for empty in [name for name, items in theirs._data.items() if not items]:
                    del theirs._data[empty]
            assert plain(ours.batch([op])) == plain(theirs.batch([op])), op


def test_an_item_is_a_page_that_people_read_and_mend(open_memory: OpenMemory) -> None:
    memory = open_memory({"store/team/made-by-hand.md": '# By hand\n\n```json\n{"text": "Nadler"}\n```\n\nA remark.\n'})
    store = MarkdownStore(memory)
    store.put(("team", "ann"), "limit", {"text": "条 five percent", "n": 5})
    page = memory.root / "store/team/ann/limit.md"
    assert '```json\n{\n  "text": "条 five percent",\n  "n": 5\n}\n```\n' in page.read_text(encoding="utf-8")
    before = store.get(("team", "ann"), "limit")
    page.write_text(page.read_text(encoding="utf-8").replace("five", "six"), encoding="utf-8")
    store.put(("team", "ann"), "limit", {"text": store.get(("team", "ann"), "limit").value["text"] + "!"})
    after = store.get(("team", "ann"), "limit")
    assert (after.value, after.created_at) == ({"text": "条 six percent!"}, before.created_at)
    assert after.updated_at > before.updated_at
    assert store.get(("team",), "made-by-hand").value == {"text": "Nadler"}
    memory.undo()
    assert store.get(("team", "ann"), "limit").value["text"] == "条 six percent"


def test_a_page_that_is_no_item_is_named_and_never_overwritten(open_memory: OpenMemory) -> None:
    text = "```json\n[1, 2\n```\n"
    store = MarkdownStore(open_memory({"store/a/k.md": text}))
    for act in (lambda: store.get(("a",), "k"), lambda: store.put(("a",), "k", {}), lambda: store.search(("a",))):
        with pytest.raises(UnreadableFileError, match=r"store/a/k\.md: is no item"):
            act()
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None


def test_a_query_finds_items_of_the_prefix_and_only_those_that_may_be_found(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "Nadler is the broker.\n"})
    store = MarkdownStore(memory)
    store.put(("rules", "ann"), "one", {"text": "Nadler is the broker", "n": 1})
    store.put(("rules", "bob"), "two", {"text": "Nadler is cheap", "n": 2})
    store.put(("rules", "bob"), "three", {"text": "Nadler is secret"}, index=False)
    store.put(("other",), "four", {"text": "Nadler is elsewhere"})

    async def found(prefix: tuple[str, ...], **options: Any) -> list[str]:
        return [item.key for item in await store.asearch(prefix, query="Nadler", **options)]

    assert set(asyncio.run(found(("rules",)))) == {"one", "two"}
    assert asyncio.run(found(("rules", "bob"))) == ["two"]
    assert asyncio.run(found(("rules",), filter={"n": {"$gte": 2}})) == ["two"]
    assert len(asyncio.run(found(("rules",), limit=1, offset=1))) == 1
    assert asyncio.run(found(("rules",), limit=5, offset=2)) == []
    assert all(item.score > 0 for item in store.search(("rules",), query="Nadler"))


def test_a_users_own_store_is_nobody_elses(open_memory: OpenMemory) -> None:
    MarkdownStore(open_memory(user="ann"), "memory/users/ann/store").put(("a",), "k", {"text": "secret"})
    bob = open_memory(user="bob")
    assert MarkdownStore(bob, "memory/users/ann/store").search(()) == []
    assert not bob.search("secret").hits


@pytest.mark.parametrize("value", [{"n": float("nan")}, {"n": object()}, {"n": {1, 2}}])
def test_what_json_cannot_say_is_refused(open_memory: OpenMemory, value: dict[str, Any]) -> None:
    store = MarkdownStore(open_memory())
    with pytest.raises(UsageError):
        store.put(("a",), "k", value)
    with pytest.raises(InvalidNamespaceError):
        store.put(("a.b",), "k", {})
    assert store.search(()) == []


def test_a_graph_remembers_in_one_run_and_knows_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(question: str, known: list[str]) -> str:
        with openai.OpenAI() as client:
            told = [{"role": "system", "content": text} for text in known]
            reply = client.chat.completions.create(
                model="loopback", messages=[*told, {"role": "user", "content": question.partition(":")[0]}]
            )
        return str(reply.choices[0].message.content)

    with Loopback() as server:
        server.say(gpt("Noted."), gpt(recalled))
        said = follow("langgraph", tmp_path, server, monkeypatch, complete=complete)
    assert (said["first"], said["second"]) == ("Noted.", f"You said: {RULE}")
    assert RULE in (tmp_path / "notes/store/rules/ann/limit.md").read_text()
