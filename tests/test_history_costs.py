"""What a question about conversations costs in things that can be counted: statements, rows, and how rows are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conversations import conversations, exchange, said
from vademecum.history import Conversations, Message, Session, rows
from vademecum.history.own import OwnHistory
from vademecum.sqlite import Connection

SESSIONS, LONG = 2_000, 3_000
STATEMENTS = sorted(name for name in vars(rows) if name.isupper() and not name.startswith("_"))
VALUES: dict[str, object] = {"owner": "shared", "id": "long", "channel": "web", "title": "t", "pinned": 1}
VALUES |= {"before": 10**9, "seq": 5, "skip": 3, "last": 3, "first": 0, "limit": 3, "turn": 2, "keep": 2}


def _messages(count: int) -> Iterator[Message]:
    for seq in range(count):
        body = exchange(seq // 2)[seq % 2]
        yield Message("", seq, 0, False, seq % 6 < 2, "", float(seq), body)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """Thousands of sessions, one of them long."""
    history = conversations(tmp_path_factory.mktemp("many"))
    session = Session("long", "", "web", "", False, 0.0, 0.0, 0)
    others = ((Session(f"s{n}", "", "cli", "", False, 0.0, float(n), 0), _messages(2)) for n in range(SESSIONS))
    done = history.restore([(session, _messages(LONG)), *others])
    assert (done.sessions, done.messages) == (SESSIONS + 1, LONG + 2 * SESSIONS)
    yield history
    history._file.close()


class Bill:
    """Statements sent to SQLite, and rows that came back."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.rows = 0


@pytest.fixture
def bill(many: Conversations, monkeypatch: pytest.MonkeyPatch) -> Bill:
    counted = Bill()
    original = Connection.execute

    def row(_cursor: object, values: tuple[object, ...]) -> tuple[object, ...]:
        counted.rows += 1
        return values

    def execute(connection: Connection, statement: str, *parameters: object) -> object:
        counted.statements.append(statement)
        connection.row_factory = row
        return original(connection, statement, *parameters)

    monkeypatch.setattr(Connection, "execute", execute)
    return counted


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_finds_its_rows_by_an_index_and_sorts_nothing(many: Conversations, name: str) -> None:
    with many._file.read() as db:
        plan = [detail for *_, detail in db.execute(f"EXPLAIN QUERY PLAN {getattr(rows, name)}", VALUES)]
    assert plan
    assert [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step] == []


@pytest.mark.parametrize(
    ("question", "most_rows"),
    [
        (lambda history: history.load("long", 10), 20),
        (lambda history: history.recap("long", 10), 20),
        (lambda history: history.page("long", 100, 10), 1 + 20),
        (lambda history: history.page("long", size=10, before=1000), 1 + 20),
        (lambda history: history.messages_after("long", LONG - 11), 10),
        (lambda history: history.last_messages("long", 10), 10),
        (lambda history: history.latest("long"), 1),
        (lambda history: history.context_start("long"), 1),
        (lambda history: history.session("s77"), 1),
        (lambda history: history.sessions(number=20), 1 + 50),
        (lambda history: history.sessions(channel="cli", number=2), 1 + 50),
        (lambda history: history.totals(), 2),
        (lambda history: history._file.stamp(), 1),
    ],
)
def test_c51_a_question_is_answered_by_a_few_rows_of_a_long_session(
    many: Conversations, bill: Bill, question: Any, most_rows: int
) -> None:
    question(many)
    about = [statement for statement in bill.statements if "FROM" in statement]
    assert len(about) <= 2
    # Beside them the transaction and a look at the schema's version, on a connection that was there already.
    assert set(bill.statements) - set(about) <= {"BEGIN", "ROLLBACK", "PRAGMA user_version"}
    assert bill.rows <= most_rows + 1


def test_the_index_follows_one_message_without_looking_into_other_sessions(many: Conversations, bill: Bill) -> None:
    source = OwnHistory(many._file)
    known = {stretch.path: stretch.state for stretch in source.changed({})}
    many.append("s7", [said("one more")])
    bill.statements.clear()
    (stretch,) = source.changed(known)
    assert stretch.path == "history.sqlite/s7"
    about = [statement for statement in bill.statements if "FROM" in statement]
    assert len(about) == 3  # the sessions, the blocks of one, and one block
    known[stretch.path] = stretch.state
    assert list(source.changed(known)) == []
    many.append("s7", [said("something")])
    many.pop("s7")
    (again,) = source.changed(known)
    assert again.said == ()
    assert list(source.changed(known | {again.path: again.state})) == []


def test_c51_an_append_does_not_read_what_is_there(many: Conversations, bill: Bill) -> None:
    many.append("long", [said("one more"), said("and more")])
    assert len(bill.statements) <= 12
    assert bill.rows <= 4
