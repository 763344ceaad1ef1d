"""Taking over what other systems remember: nothing is overwritten, and taking it twice adds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from vademecum.errors import PathError, StoreError, UsageError
from vademecum.history import Message, Session
from vademecum.memory import Memory
from vademecum.store.files import Document, page_bytes, rewrite
from vademecum.store.layout import detect, home
from vademecum.store.paths import resolve
from vademecum.transfer.found import Conversation, Found, Page, Skipped
from vademecum.transfer.sources import chats, mem0, pages

_SOURCES: Mapping[str, Callable[[Path], Iterator[Found]]] = MappingProxyType(
    {
        "openclaw": pages.openclaw,
        "memsearch": pages.memsearch,
        "memweave": pages.memweave,
        "claude-code": pages.claude_code,
        "basic-memory": pages.basic_memory,
        "chatgpt": chats.chatgpt,
        "claude": chats.claude,
        "mem0": mem0.memories,
    }
)
#: Where memories can come from.
KINDS = tuple(_SOURCES)
_MOST_NAMES = 1_000


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was taken: paths of pages and ids of sessions; ``known`` counts what was here already; ``skipped`` pairs
    what was not taken with the reason."""

    pages: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    messages: int = 0
    known: int = 0
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Tally:
    pages: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    messages: int = 0
    known: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


def import_memory(memory: Memory, kind: str, source: Path, *, dry_run: bool = False) -> ImportReport:
    """Take over the memory of another system at ``source`` for whom ``memory`` is opened.

    ``kind`` is one of `KINDS`. A page whose name is taken gets another; what is here word for word is not taken again.
    What is taken has the origin "import". Raises UsageError for a kind that there is not or a source that is none.
    """
    read = _SOURCES.get(kind)
    if read is None:
        raise UsageError(f"kind = {kind!r}: expected one of {', '.join(KINDS)}")
    if not source.exists():
        raise UsageError(f"{source}: there is no such file or folder")
    tally = _Tally()
    talks: list[Conversation] = []
    for found in read(source):
        if isinstance(found, Skipped):
            tally.skipped.append((found.name, found.reason))
        elif isinstance(found, Page):
            _take_page(memory, kind, found, tally, dry_run)
        else:
            talks.append(found)
    _take_talks(memory, kind, talks, tally, dry_run)
    if tally.pages and not dry_run:
        memory.sync()
    return ImportReport(tuple(tally.pages), tuple(tally.sessions), tally.messages, tally.known, tuple(tally.skipped))


def _take_page(memory: Memory, kind: str, page: Page, tally: _Tally, dry_run: bool) -> None:
    layout = detect(memory.root, "auto")
    prefix = layout.long_term(home(memory.viewer)).removesuffix("MEMORY.md")
    document = Document(page.text)
    for name in _names(prefix + page.path, kind):
        try:
            location = resolve(memory.root, name)
            there = page_bytes(memory.root, name)
            if there == document.encode():
                tally.known += 1
                return
            if there is None and not location.file.exists():
                if not dry_run:
                    rewrite(memory.root, location, lambda _: document, by="import", why=f"import from {kind}")
                tally.pages.append(location.path)
                return
        except (PathError, StoreError) as error:
            tally.skipped.append((page.path, str(error)))
            return
    tally.skipped.append((page.path, "a thousand pages have this name already"))


def _names(path: str, kind: str) -> Iterator[str]:
    pure = PurePosixPath(path)
    yield path
    yield pure.with_name(f"{pure.stem}-{kind}.md").as_posix()
    for number in range(2, _MOST_NAMES):
        yield pure.with_name(f"{pure.stem}-{kind}-{number}.md").as_posix()


def _take_talks(memory: Memory, kind: str, talks: list[Conversation], tally: _Tally, dry_run: bool) -> None:
    taken = [talk for talk in talks if talk.messages]
    tally.skipped += [(talk.id, "holds no messages") for talk in talks if not talk.messages]
    if dry_run or not taken:
        tally.sessions += [talk.id for talk in taken]
        tally.messages += sum(len(talk.messages) for talk in taken)
        return
    restored = memory.history.restore((_session(talk, kind), list(_messages(talk))) for talk in taken)
    refused = dict(restored.refused)
    tally.sessions += [talk.id for talk in taken if talk.id not in refused]
    tally.skipped += restored.refused
    tally.messages += restored.messages
    tally.known += restored.known


def _session(talk: Conversation, kind: str) -> Session:
    times = [said.at for said in talk.messages]
    return Session(
        id=talk.id,
        owner="",
        channel=kind,
        title=talk.title,
        pinned=False,
        created_at=min(times),
        active_at=max(times),
        messages=len(times),
    )


def _messages(talk: Conversation) -> Iterator[Message]:
    for seq, said in enumerate(talk.messages):
        body = {"role": said.role, "content": said.text}
        yield Message(
            id="", seq=seq, turn=0, opens=said.role == "user", scheduled=False, role=said.role, at=said.at, body=body
        )
