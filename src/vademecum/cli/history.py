"""`vademecum history`: conversations that a host keeps, listed, read and tidied up by a person."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.cli.grammar import command, group
from vademecum.cli.output import note, paint, plain, print_json, print_text, visible
from vademecum.cli.target import open_memory
from vademecum.errors import HistoryError, UsageError

if TYPE_CHECKING:
    from vademecum.history import Session, Turn
    from vademecum.memory import Memory

_BOLD, _DIM = "1", "2"
_LONGEST_VALUE = 200


def add(adding: Any) -> None:
    """All commands of the group."""
    examples = ("history list", "history show chat-7 --page 2", "history prune --days 90 --dry-run")
    group_adding = group(adding, "history", "list, read and tidy up conversations", examples)
    for one in (_list, _show, _append, _title, _pin, _clear, _delete, _prune, _repair):
        one(group_adding)


def _list(adding: Any) -> None:
    examples = ("history list", "history list --channel web --page 2 --json")
    parser = command(adding, "list", "list sessions, pinned ones first, then the latest", run_list, examples)
    parser.add_argument("--channel", metavar="C", help="only sessions held there")
    _paging(parser, 50)


def _show(adding: Any) -> None:
    examples = ("history show chat-7", "history show chat-7 --steps", "history show chat-7 --raw > chat-7.jsonl")
    parser = command(adding, "show", "print a session, turn by turn; page 1 holds the newest", run_show, examples)
    _session(parser)
    _paging(parser, 20)
    parser.add_argument("--steps", action="store_true", help="also calls of tools, their results, and thoughts")
    parser.add_argument("--raw", action="store_true", help="all messages as they were given, one JSON object a line")


def _append(adding: Any) -> None:
    examples = ("history append chat-7 turn.jsonl --channel cli", "history append chat-7 --scheduled - < tick.jsonl")
    summary = "store messages at the end of a session, all or none"
    parser = command(adding, "append", summary, run_append, examples)
    _session(parser)
    what = 'messages with a "role", one JSON object a line; - (the default) reads standard input'
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help=what)
    parser.add_argument("--channel", metavar="C", default="", help="where a new session is held")
    parser.add_argument("--scheduled", action="store_true", help="a scheduler and no person is the origin")


def _title(adding: Any) -> None:
    examples = ('history title chat-7 "Plans for the garden"',)
    parser = command(adding, "title", "give a session a title", run_title, examples)
    _session(parser)
    parser.add_argument("title", metavar="TEXT", help="one line")


def _pin(adding: Any) -> None:
    examples = ("history pin chat-7", "history pin chat-7 --off")
    parser = command(adding, "pin", "keep a session at the top of the list, and from being pruned", run_pin, examples)
    _session(parser)
    parser.add_argument("--off", action="store_true", help="no longer")


def _clear(adding: Any) -> None:
    examples = ("history clear chat-7",)
    summary = "leave what was said so far out of what the model is given; nothing is deleted"
    _session(command(adding, "clear", summary, run_clear, examples))


def _delete(adding: Any) -> None:
    examples = ("history delete chat-7", "history delete chat-7 --turn 12", "history delete chat-7 --turn 12 --onward")
    parser = command(adding, "delete", "delete a session, or some of its turns, for good", run_delete, examples)
    _session(parser)
    parser.add_argument("--turn", metavar="N", type=int, help="only the turn that `history show` numbers so")
    parser.add_argument("--onward", action="store_true", help="with --turn: and all later ones")
    parser.add_argument("--answer", action="store_true", help="with --turn: keep the question")


def _prune(adding: Any) -> None:
    examples = ("history prune --days 90 --dry-run", "history prune --scheduled chat-7 --keep 3")
    parser = command(adding, "prune", "delete what is old", run_prune, examples)
    what = parser.add_mutually_exclusive_group(required=True)
    days = "sessions that have not been active for so long; pinned ones stay, and those of the channel web"
    what.add_argument("--days", metavar="N", type=_number, help=days)
    what.add_argument("--scheduled", metavar="SESSION", help="a session's turns of a scheduler, but for the last ones")
    parser.add_argument("--keep", metavar="N", type=int, default=3, help="with --scheduled: how many stay (default: 3)")
    channel = "with --days: sessions held there stay, instead of those of web; may be repeated"
    parser.add_argument("--keep-channel", metavar="C", action="append", help=channel)
    parser.add_argument("--dry-run", action="store_true", help="with --days: only list what would go")


def _repair(adding: Any) -> None:
    examples = ("history repair",)
    summary = "save what can be read of a damaged history; the damaged file is kept"
    command(adding, "repair", summary, run_repair, examples)


def _session(parser: Any) -> None:
    parser.add_argument("session", metavar="SESSION", help="its id, as `history list` prints it")


def _paging(parser: Any, size: int) -> None:
    parser.add_argument("--page", metavar="N", type=int, default=1, help="which page (default: 1)")
    parser.add_argument("--size", metavar="N", type=int, default=size, help=f"how many on a page (default: {size})")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number") from None


def run_list(args: Namespace) -> int:
    with open_memory(args) as memory:
        page = memory.history.sessions(channel=args.channel, number=args.page, size=args.size)
        if args.json:
            print_json(page)
            return 0
        for session in page.sessions:
            _print_session(memory, session)
    print(f"{len(page.sessions)} of {page.total} sessions" + ("; --page shows more" if page.more else ""))
    return 0


def run_show(args: Namespace) -> int:
    with open_memory(args) as memory:
        _known(memory, args.session)
        if args.raw:
            for message in memory.history.messages_after(args.session):
                print_json(message.body)
            return 0
        page = memory.history.page(args.session, args.page, args.size)
        if args.json:
            print_json(page)
            return 0
        for turn in page.turns:
            _print_turn(memory, turn, steps=args.steps)
    if page.more:
        print(paint(f"{page.total} turns; --page {page.number + 1} shows earlier ones", _DIM))
    return 0


def run_append(args: Namespace) -> int:
    messages = _messages(args.file)
    with open_memory(args) as memory:
        stored = memory.history.append(args.session, messages, channel=args.channel, scheduled=args.scheduled)
    if args.json:
        print_json({"session": args.session, "messages": [{"id": one.id, "seq": one.seq} for one in stored]})
    else:
        print(f"{len(stored)} messages stored")
    return 0


def run_title(args: Namespace) -> int:
    with open_memory(args) as memory:
        if not memory.history.rename(args.session, args.title):
            raise _missing(args.session)
        return _tell_session(memory, args)


def run_pin(args: Namespace) -> int:
    with open_memory(args) as memory:
        if not memory.history.pin(args.session, not args.off):
            raise _missing(args.session)
        return _tell_session(memory, args)


def run_clear(args: Namespace) -> int:
    with open_memory(args) as memory:
        start = memory.history.clear_context(args.session)
    if start is None:
        raise _missing(args.session)
    if args.json:
        print_json({"session": args.session, "context_start": start})
    else:
        print("the model is given nothing of what was said so far; it is still here")
    return 0


def run_delete(args: Namespace) -> int:
    if args.turn is None and (args.onward or args.answer):
        raise UsageError("--onward and --answer go with --turn N")
    with open_memory(args) as memory:
        count = _known(memory, args.session).messages
        if args.turn is None:
            memory.history.delete(args.session)
        else:
            count = memory.history.delete_turn(args.session, args.turn, question=not args.answer, following=args.onward)
            if not count:
                raise HistoryError(f"{args.session}: no turn {args.turn} with anything to delete")
    return _tell_count(args, count)


def run_prune(args: Namespace) -> int:
    with open_memory(args) as memory:
        if args.scheduled is not None:
            _known(memory, args.scheduled)
            return _tell_count(args, memory.history.prune_scheduled(args.scheduled, args.keep))
        kept = {} if args.keep_channel is None else {"keep_channels": args.keep_channel}
        gone = memory.history.prune(args.days, dry_run=args.dry_run, **kept)
        if args.json:
            print_json({"sessions": gone, "dry_run": args.dry_run})
            return 0
        for session in gone:
            _print_session(memory, session)
    print(f"{len(gone)} sessions {'would be deleted' if args.dry_run else 'deleted'}")
    return 0


def run_repair(args: Namespace) -> int:
    with open_memory(args) as memory:
        saved = memory.repair_history()
    if args.json:
        print_json({**plain(saved), "kept": None if saved.kept is None else str(saved.kept)})
    elif saved.kept is None:
        print("nothing is wrong with it")
    else:
        print(visible(f"saved: {saved.messages} messages of {saved.sessions} sessions; lost: {saved.lost} messages"))
        print(visible(f"the damaged file is kept as {saved.kept}"))
    if saved.lost:
        note(f"the sqlite3 shell's .recover may find more in {saved.kept}")
    return 0


def _known(memory: Memory, session: str) -> Session:
    found = memory.history.session(session)
    if found is None:
        raise _missing(session)
    return found


def _missing(session: str) -> HistoryError:
    return HistoryError(f"{session}: there is no such session; `vademecum history list` shows those there are")


def _messages(file: str) -> list[Any]:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lines = raw.decode("utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: is not valid UTF-8 at byte {error.start}") from None
    messages = []
    for number, line in enumerate(lines, start=1):
        try:
            messages += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}: line {number} is not JSON: {error}") from None
    return messages


def _tell_session(memory: Memory, args: Namespace) -> int:
    session = _known(memory, args.session)
    if args.json:
        print_json(session)
    else:
        _print_session(memory, session)
    return 0


def _tell_count(args: Namespace, count: int) -> int:
    if args.json:
        print_json({"deleted": count})
    else:
        print(f"{count} messages deleted")
    return 0


def _print_session(memory: Memory, session: Session) -> None:
    parts = (
        f"{session.messages} messages",
        _when(memory, session.active_at),
        session.channel,
        "pinned" if session.pinned else "",
    )
    print(f"{paint(session.id, _BOLD)}  {visible(session.title)}")
    print("  " + paint(" · ".join(filter(None, parts)), _DIM))


def _print_turn(memory: Memory, turn: Turn, *, steps: bool) -> None:
    marks = ("scheduled" if turn.scheduled else "", "" if turn.in_context else "not in the context")
    print(paint(" · ".join(filter(None, (f"{turn.seq}", _when(memory, turn.at), *marks))), _DIM))
    if turn.question is not None:
        print(paint(turn.question, _BOLD))
    if not steps:
        print_text(turn.answer)
    for step in turn.steps if steps else ():
        if step.kind == "text":
            print_text(step.text)
        elif step.kind == "thinking":
            print(paint(f"({step.text})", _DIM))
        else:
            called = f"→ {step.name}({_short(step.arguments)})"
            print(paint(f"{called} {'failed: ' if step.failed else ''}{_short(step.result)}", _DIM))
    print()


def _short(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_VALUE else f"{line[:_LONGEST_VALUE]}…"


def _when(memory: Memory, at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone(memory.settings.zone).strftime("%Y-%m-%d %H:%M")
