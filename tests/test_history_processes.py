"""Many processes at one history: each message once, in order, and whole however a writer ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conversations import conversations, texts
from store_support import environment

STRESS = bool(os.environ.get("VADEMECUM_STRESS"))

_WRITER = """
import sys
from pathlib import Path
from vademecum.history import Conversations, HistoryFile
folder, name, count, size = sys.argv[1:]
history = Conversations(HistoryFile(Path(folder) / "history.sqlite"), "shared")
for number in range(int(count)):
    messages = [{"role": "user", "content": f"{name} {number} {part}"} for part in range(int(size))]
    history.append("s", messages)
    print(number, flush=True)
"""


def _writer(folder: Path, name: object, count: int, size: int = 1) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", _WRITER, str(folder), str(name), str(count), str(size)]
    return subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, text=True)


def test_c49_eight_processes_lose_no_message_and_share_no_number(tmp_path: Path) -> None:
    writers = [_writer(tmp_path, name, 100) for name in range(8)]
    for writer in writers:
        out, _ = writer.communicate(timeout=300)
        assert writer.returncode == 0
        assert out.split() == [str(number) for number in range(100)]
    history = conversations(tmp_path)
    messages = history.messages_after("s")
    assert [message.seq for message in messages] == list(range(800))
    assert len({message.id for message in messages}) == 800
    said = [str(message.body["content"]).split() for message in messages]
    for name in range(8):
        assert [number for writer, number, _ in said if writer == str(name)] == [str(number) for number in range(100)]
    assert history.session("s").messages == 800  # type: ignore[union-attr]
    history._file.close()


def test_processes_that_begin_at_once_make_one_file(tmp_path: Path) -> None:
    writers = [_writer(tmp_path, name, 1) for name in range(6)]
    assert [writer.communicate(timeout=300)[0] for writer in writers] == ["0\n"] * 6
    history = conversations(tmp_path)
    assert len(history.messages_after("s")) == 6
    history._file.close()


@pytest.mark.stress
def test_a_writer_that_is_killed_leaves_whole_batches_and_all_that_it_reported(tmp_path: Path) -> None:
    size, dice = 20, random.Random(7)
    for kill in range(40 if STRESS else 6):
        writer = _writer(tmp_path, f"w{kill}", 100_000, size)
        assert writer.stdout is not None
        assert writer.stdout.readline()
        time.sleep(dice.random() * 0.1)
        writer.send_signal(signal.SIGKILL)
        reported = 1 + len(writer.communicate()[0].splitlines())
        history = conversations(tmp_path)
        batches = Counter(tuple(str(text).split()[:2]) for text in texts(history.load("s", 10**9)))
        assert set(batches.values()) == {size}
        assert sum(name == f"w{kill}" for name, _ in batches) in (reported, reported + 1)
        messages = history.messages_after("s")
        assert [message.seq for message in messages] == list(range(len(messages)))
        assert history.session("s").messages == len(messages)  # type: ignore[union-attr]
        history._file.close()
