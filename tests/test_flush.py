"""Conversations become notes: once, whole, without secrets, and never lost on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")

from loopback import Loopback, answer, hang, status
from memories import PATIENT, set_clock, texts
from vademecum import Memory, Settings
from vademecum.cli import main
from vademecum.errors import SettingsError, StoreError, UsageError
from vademecum.settings import ChatSettings, FlushSettings, RedactSettings

NOON = datetime(2026, 3, 4, 12, 5, tzinfo=ZoneInfo("UTC"))
DAY = "memory/2026-03-04.md"
TALK = [
    {"id": "1", "role": "user", "content": "My limit for single positions is 5 %."},
    {"id": "2", "role": "assistant", "content": "Noted: at most 5 % each."},
    {"id": "3", "role": "user", "content": "Deploy to prod?"},
    {"id": "4", "role": "assistant", "content": "yes"},
]
FACT = "The user's limit for single positions is 5 %."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with Loopback() as running:
        yield running


@pytest.fixture
def memory(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    set_clock(monkeypatch, NOON)
    with Memory.open(tmp_path / "notes", settings=asking(server)) as opened:
        yield opened


def asking(server: Loopback, **flush: object) -> Settings:
    chat = ChatSettings(model="m", base_url=server.base_url, timeout_s=5)
    return replace(PATIENT, timezone="UTC", chat=chat, flush=FlushSettings(**flush))


def page(memory: Memory) -> str:
    file = memory.root / DAY
    return file.read_text() if file.exists() else ""


def test_facts_land_in_todays_page_under_a_heading_with_the_time_and_are_found_at_once(server, memory):
    server.say(f"- {FACT}\n- The user deploys to prod.")
    report = memory.flush(TALK)
    assert page(memory) == f"# 2026-03-04\n\n## Facts (12:05)\n\n- {FACT}\n- The user deploys to prod.\n"
    assert (report.written.path, report.written.start_line, report.written.end_line) == (DAY, 3, 6)
    assert (report.source, report.messages, report.notices) == ("model", 4, ())
    assert FACT in texts(memory.search("limit for single positions"))


def test_one_call_serves_the_page_and_the_live_context(server, memory):
    server.say(f"- {FACT}")
    report = memory.flush(TALK, kind="events", heading="Trimmed Context")
    assert report.summary == f"- {FACT}"
    assert report.summary in page(memory)
    assert len(server.chats) == 1


def test_the_model_is_shown_the_turns_and_told_what_to_leave_out(server, memory):
    server.say("NONE")
    memory.flush(TALK, kind="events")
    system, user = (message["content"] for message in server.chats[0]["messages"])
    assert "Leave out" in system and "tools" in system and "market data" in system
    assert "User: My limit for single positions is 5 %." in user
    assert "Assistant: yes" in user


@pytest.mark.parametrize(
    "nothing", ["NO_MEMORY_TO_FLUSH", "NO_MEMORY_TO_FLUSH.", "None.", "无。", "无", "`NONE`", "", "-"]
)
def test_a_way_of_saying_nothing_is_never_written_as_a_memory(server, memory, nothing):
    server.always_say(nothing)
    report = memory.flush(TALK)
    assert (report.items, report.written) == ((), None)
    assert page(memory) == ""


def test_control_tokens_role_markers_fences_and_echoes_are_cut_and_code_inside_stays(server, memory):
    echo = "Leave out: output of tools, quotations, market data and other facts that can be looked up again; what the"
    server.say(
        f"```markdown\nassistant: here you are\n{echo} assistant merely\n- Run `make test` first.<|im_end|>\n```"
    )
    assert memory.flush(TALK).items == ("Run `make test` first.",)


def test_what_was_flushed_once_is_not_written_again_but_handed_back(server, memory):
    server.say(f"- {FACT}")
    memory.flush(TALK)
    before = page(memory)
    again = memory.flush(TALK)
    assert (again.source, again.items, page(memory), len(server.chats)) == ("model", (FACT,), before, 1)
    part = memory.flush(TALK[:2])
    assert (part.source, part.items, part.messages, page(memory), len(server.chats)) == ("known", (FACT,), 0, before, 1)


def test_only_new_messages_are_summarised_and_a_short_repeat_is_new(server, memory):
    server.say(f"- {FACT}", "- Deploying to staging was approved.")
    memory.flush(TALK)
    more = [*TALK, {"role": "user", "content": "Deploy to staging?"}, {"role": "assistant", "content": "yes"}]
    assert memory.flush(more).messages == 2
    shown = server.chats[1]["messages"][1]["content"]
    assert shown == "User: Deploy to staging?\n\nAssistant: yes"


def test_a_restart_or_another_process_does_not_summarise_the_same_messages_twice(server, memory, tmp_path):
    server.say(f"- {FACT}")
    memory.flush(TALK)
    memory.close()
    with Memory.open(memory.root, settings=asking(server)) as reopened:
        assert reopened.flush(TALK).items == (FACT,)
    assert len(server.chats) == 1


def test_two_threads_flushing_one_conversation_write_it_once(server, memory):
    server.always_say(f"- {FACT}")
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: memory.flush(TALK), range(4)))
    assert {report.items for report in reports} == {(FACT,)}
    assert page(memory).count(FACT) == 1
    assert len(server.chats) == 1


def test_near_copies_of_what_is_on_file_are_dropped_and_other_numbers_negations_and_names_are_not(server, memory):
    memory.remember("The user likes green tea.")
    limits = ["Limit ≤ 8 %.", "Limit ≤ 5 %."]
    facts = ["User likes green tea", "The user doesn't like green tea.", "Anna likes green tea.", *limits]
    server.say("\n".join(f"- {fact}" for fact in facts))
    assert memory.flush(TALK).items == tuple(facts[1:])


def test_secrets_reach_neither_the_model_nor_the_page(server, memory):
    key = "sk-proj-" + "aB3dE5fG7h" * 4
    server.always_say(answer(lambda messages: f"- The key is {key}."))
    memory.flush([{"role": "user", "content": f"my key is {key}"}])
    assert key not in json.dumps(server.chats)
    assert key not in page(memory)


def test_what_counts_as_a_secret_is_a_setting_for_flushes_too(server, tmp_path, monkeypatch):
    key = "sk-proj-" + "aB3dE5fG7h" * 4
    rules = RedactSettings(patterns=(r"Project \w+",), ignore=("api key",))
    for name, redact in (("own", rules), ("off", RedactSettings(models="off"))):
        server.always_say(answer(lambda messages: f"- The key of Project Falcon is {key}."))
        with Memory.open(tmp_path / name, settings=replace(asking(server), redact=redact)) as memory:
            memory.flush([{"role": "user", "content": f"Project Falcon has the key {key}"}])
            (text,) = (file.read_text() for file in memory.root.glob("memory/*.md"))
        assert key in text
        assert ("Falcon" in text) == (name == "off")


def test_what_a_timer_put_into_the_conversation_and_its_answer_never_reach_a_summary(server, memory):
    server.say(f"- {FACT}")
    timer = [
        {"role": "user", "content": "[SCHEDULED] morning news"},
        {"role": "assistant", "content": "Stocks rose."},
        {"role": "user", "content": "and the weather", "scheduled": True},
        {"role": "assistant", "content": "Sunny."},
    ]
    memory.flush([*timer, *TALK])
    shown = server.chats[0]["messages"][1]["content"]
    assert "news" not in shown and "Stocks" not in shown and "Sunny" not in shown and "5 %" in shown
    assert memory.flush(timer[:2]).messages == 0


def test_without_a_model_rules_summarise_and_say_so(tmp_path, monkeypatch):
    set_clock(monkeypatch, NOON)
    with Memory.open(tmp_path, settings=replace(PATIENT, timezone="UTC")) as memory:
        report = memory.flush(TALK)
        assert report.source == "rules"
        assert "chat.model is not set" in report.notices[0]
        assert "## Facts (12:05) (taken down without a model)" in page(memory)
        assert "- Deploy to prod? → yes" in page(memory)


@pytest.mark.parametrize(
    "bad",
    [
        status(500),
        status(401),
        hang(),
        answer("I am sorry, I cannot do that."),
        answer("- half of a sen", finish="length"),
    ],
    ids=["500", "401", "hangs", "no list", "cut off"],
)
def test_a_model_that_fails_or_answers_rubbish_costs_no_conversation(server, memory, tmp_path, bad):
    server.always_say(bad)
    chat = replace(memory.settings.chat, timeout_s=0.5)
    with Memory.open(tmp_path / "other", settings=replace(memory.settings, chat=chat)) as other:
        report = other.flush(TALK)
        assert report.source in {"rules", "nothing"}
        assert "half of a sen" not in page(other) and "sorry" not in page(other)
        if report.source == "rules":
            assert "- Deploy to prod? → yes" in page(other)


def test_an_answer_that_is_cut_off_is_asked_for_in_smaller_parts(server, tmp_path):
    def say(messages):
        return "\n".join(f"- about {line}" for line in messages[1]["content"].split() if line.startswith("topic"))

    def speak(exchange):
        shown = exchange.request.body["messages"][1]["content"]
        return answer(say, finish="length" if shown.count("topic") > 20 else "stop")(exchange)

    server.always_say(speak)
    talk = [{"role": "user", "content": f"topic{number} " + "and so on " * 40} for number in range(60)]
    with Memory.open(tmp_path, settings=asking(server)) as memory:
        assert memory.flush(talk).items == tuple(f"about topic{number}" for number in range(60))


def test_text_after_the_first_500_characters_reaches_the_model_whatever_the_length(server, tmp_path):
    server.always_say("NONE")
    with Memory.open(tmp_path, settings=asking(server, window_tokens=500)) as memory:
        memory.flush([{"role": "user", "content": "x" * 600 + " marker-a " + "长" * 3000 + " marker-b"}])
    shown = "".join(chat["messages"][1]["content"] for chat in server.chats)
    assert "marker-a" in shown and "marker-b" in shown and shown.count("长") == 3000
    assert len(server.chats) > 4


def test_a_chinese_conversation_is_summarised_by_the_chinese_prompt(server, memory):
    server.say("- 用户的单只仓位上限是 5%。")
    assert memory.flush([{"role": "user", "content": "我的单只仓位上限是 5%。"}]).items == (
        "用户的单只仓位上限是 5%。",
    )
    assert "长期记忆" in server.chats[0]["messages"][0]["content"]


def test_users_put_prompts_of_their_own_in_the_place_of_ours(server, memory, tmp_path):
    own = memory.root / ".vademecum" / "prompts"
    own.mkdir(parents=True)
    (own / "domain-garden.en.txt").write_text("Plants matter most.")
    server.always_say("NONE")
    with Memory.open(tmp_path / "x", settings=asking(server, domain="finance")) as other:
        other.flush(TALK)
    assert "risk tolerance" in server.chats[0]["messages"][0]["content"]
    memory.close()
    with Memory.open(memory.root, settings=asking(server, domain="garden")) as mine:
        mine.flush(TALK)
    assert "Plants matter most." in server.chats[1]["messages"][0]["content"]


def test_tool_calls_and_results_of_every_protocol_are_read(server, memory):
    server.always_say("NONE")
    call = {"id": "c", "function": {"name": "quote", "arguments": "{}"}}
    used = [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "name": "buy", "input": {"n": 1}}]
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "bought"}]}
    memory.flush(
        [
            {"role": "system", "content": "SECRET RULES"},
            {"role": "user", "content": [{"type": "text", "text": "price of ACME?"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "17.2 " + "0" * 5000},
            {"role": "assistant", "content": used},
            {"role": "user", "content": [result]},
            {"type": "function_call", "name": "sell", "arguments": "{}"},
            {"type": "function_call_output", "output": "sold"},
            {"type": "reasoning", "summary": []},
        ]
    )
    shown = server.chats[0]["messages"][1]["content"]
    for part in ("User: price of ACME?", "[quote {}]", "Tool result: 17.2", '[buy {"n": 1}]', "[sell {}]"):
        assert part in shown
    assert "Tool result: bought" in shown and "Tool result: sold" in shown
    assert "SECRET" not in shown and "hm" not in shown and len(shown) < 1500


@pytest.mark.parametrize(
    "bad", ["text", [3], [{"role": "wizard", "content": "x"}], [{"role": "user", "content": 3}], [], None, {}]
)
def test_messages_of_another_shape_are_refused_by_position_and_nothing_is_kept(memory, bad):
    with pytest.raises(UsageError, match="message"):
        memory.flush(bad)
    assert not (memory.root / ".vademecum" / "writeback.sqlite").exists()


def test_work_in_the_background_is_done_when_its_future_is_and_found_by_then(server, memory):
    go, seen = threading.Event(), []

    def wait(exchange):
        go.wait(10)
        answer(f"- {FACT}")(exchange)

    server.say(wait)
    future = memory.flush_in_background(TALK, callback=seen.append)
    assert not future.done()
    go.set()
    report = future.result(10)
    assert seen == [report] and report.items == (FACT,)
    assert FACT in texts(memory.search("limit for single positions"))


_KILLED = """
import sys
from dataclasses import replace
from vademecum import Memory
from vademecum.config import environment, load_settings
from pathlib import Path
root = Path(sys.argv[1])
with Memory.open(root) as memory:
    memory.flush_in_background([{"id": "1", "role": "user", "content": "My limit is 5 %."}])
    print("accepted", flush=True)
    sys.stdin.read()
"""


def test_what_was_accepted_before_a_kill_is_flushed_when_the_memory_is_next_opened(server, tmp_path):
    server.always_say(hang())
    environ = {**os.environ, "VADEMECUM_CHAT__MODEL": "m", "VADEMECUM_CHAT__BASE_URL": server.base_url}
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], env=environ, stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert process.stdout.readline() == b"accepted\n"
    assert server.wait_for(lambda: server.count == 1, 20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.always_say(f"- {FACT}")
    with Memory.open(tmp_path, settings=asking(server)) as memory:
        memory.flush_pending()  # or the thread that began at open: whoever is first
        assert [path.read_text().count(FACT) for path in (tmp_path / "memory").glob("*.md")] == [1]


def test_a_kill_between_the_write_and_the_record_of_it_does_not_write_twice(server, memory, monkeypatch):
    server.say(f"- {FACT}")
    with monkeypatch.context() as patched:
        patched.setattr("vademecum.writeback.ledger.Ledger.finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            memory.flush(TALK)
    before = page(memory)
    assert [report.items for report in memory.flush_pending()] == [(FACT,)]
    assert (page(memory), len(server.chats)) == (before, 1)


def test_a_page_that_cannot_be_written_keeps_the_conversation_for_later(server, memory):
    server.always_say(f"- {FACT}")
    page_file = memory.root / DAY
    page_file.parent.mkdir(exist_ok=True)
    page_file.write_bytes(b"\xff\xfe not UTF-8")
    with pytest.raises(StoreError):
        memory.flush(TALK)
    assert [report.source for report in memory.flush_pending()] == ["failed"]
    page_file.unlink()
    assert [report.items for report in memory.flush_pending()] == [(FACT,)]
    assert memory.flush_pending() == ()


def test_a_second_flush_the_next_day_adds_nothing_of_the_first(server, memory, monkeypatch):
    server.say(f"- {FACT}")
    memory.flush(TALK)
    set_clock(monkeypatch, NOON + timedelta(days=1))
    assert memory.flush(TALK).source == "known"
    assert not (memory.root / "memory" / "2026-03-05.md").exists()


def test_a_users_conversation_lands_in_the_users_own_page(server, memory):
    server.say(f"- {FACT}")
    with Memory.open(memory.root, user="anna", settings=memory.settings) as anna:
        assert anna.flush(TALK).written.path == "memory/users/anna/2026-03-04.md"
    assert FACT not in texts(memory.search("limit for single positions"))


def test_undo_takes_a_flush_back(server, memory):
    memory.remember("Bought bread.", daily=True)
    before = page(memory)
    server.say(f"- {FACT}")
    memory.flush(TALK)
    entry = memory.log()[0]
    assert (entry.by, entry.path) == ("flush", DAY)
    memory.undo(entry.id)
    assert page(memory) == before


def test_a_dry_run_shows_what_would_be_written_and_leaves_nothing(server, memory):
    server.say(f"- {FACT}")
    assert memory.flush(TALK, dry_run=True).items == (FACT,)
    assert page(memory) == ""
    assert not (memory.root / ".vademecum" / "writeback.sqlite").exists()


def test_a_flush_only_ever_appends(server, memory):
    memory.remember("Bought bread.", daily=True)
    before = page(memory)
    server.say("- " + "\n- ".join(["# everything is new", "---", "<!-- gone -->"]))
    memory.flush(TALK)
    assert page(memory).startswith(before)
    assert "Bought bread." in texts(memory.search("bread"))


def test_the_messages_of_the_moment_are_flushed_whatever_becomes_of_them_meanwhile(server, memory):
    go = threading.Event()

    def wait(exchange):
        go.wait(10)
        answer(f"- {FACT}")(exchange)

    server.always_say(wait)
    talk = [dict(message) for message in TALK]
    future = memory.flush_in_background(talk)
    for message in talk:
        message["content"] = "[summary of the conversation so far]"
    del talk[1:]
    go.set()
    future.result(10)
    assert "My limit for single positions is 5 %." in server.chats[0]["messages"][1]["content"]


def test_the_command_line_flushes_a_file_and_tells_what_came_of_it(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VADEMECUM_CHAT__MODEL", "m")
    monkeypatch.setenv("VADEMECUM_CHAT__BASE_URL", server.base_url)
    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "none")
    root = ["--root", str(tmp_path / "notes")]
    assert main(["init", str(tmp_path / "notes")]) == 0
    talk = tmp_path / "talk.jsonl"
    talk.write_text("\n".join(json.dumps(message) for message in TALK))
    server.always_say(f"- {FACT}")
    capsys.readouterr()
    assert main([*root, "flush", str(talk), "--dry-run"]) == 0
    assert main([*root, "flush", str(talk), "--json"]) == 0
    assert main([*root, "flush", "--pending"]) == 0
    shown, report = capsys.readouterr().out.splitlines()[:2]
    assert shown == f"- {FACT}"
    assert json.loads(report)["items"] == [FACT]
    talk.write_text('{"role": "user", "content": "x"}\n{broken')
    assert main([*root, "flush", str(talk)]) == 2
    assert "line 2" in capsys.readouterr().err
    assert main([*root, "flush"]) == 2


def test_a_prompt_that_is_a_link_or_a_pipe_is_not_followed(server, memory, tmp_path):
    own = memory.root / ".vademecum/prompts"
    own.mkdir()
    (tmp_path / "private.txt").write_text("what nobody else may see")
    (own / "facts.en.txt").symlink_to(tmp_path / "private.txt")
    with pytest.raises(SettingsError, match=r"facts\.en\.txt"):
        memory.flush(TALK)
    (own / "facts.en.txt").unlink()
    os.mkfifo(own / "facts.en.txt")
    with pytest.raises(SettingsError, match=r"facts\.en\.txt"):
        memory.flush(TALK)
    assert server.chats == []
    (own / "facts.en.txt").unlink()
    server.say(f"- {FACT}")
    assert [report.source for report in memory.flush_pending()] == ["model"]
