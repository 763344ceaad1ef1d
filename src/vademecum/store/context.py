"""What an agent is told at the start of a session: the evergreen page, today and yesterday, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from vademecum.errors import MissingFileError, PathError, UnreadableFileError, UsageError
from vademecum.settings import ContextSettings
from vademecum.store.condense import condense, cut_note, water_fill
from vademecum.store.files import read_text
from vademecum.store.layout import Layout
from vademecum.store.paths import resolve
from vademecum.text.estimate import WEIGHT_PER_TOKEN, estimate_tokens, weigh
from vademecum.text.fence import bar, fence
from vademecum.types import Context, Viewer

#: Of every ten tokens, how many the evergreen pages may take when there is not enough room for all.
_EVERGREEN_TENTHS = 7
_GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A page for the context; dated ones share what evergreen ones must leave to them."""

    path: str
    text: str
    evergreen: bool


def gather(
    layout: Layout, viewer: Viewer, today: date, max_tokens: int, settings: ContextSettings | None = None
) -> Context:
    """The context of a viewer: MEMORY.md, today's and yesterday's page, the shared one of each before its own.

    Pages that do not exist are absent; ``Context.cut`` also names those that cannot be read.
    Raises UsageError when ``max_tokens`` is below 1 or an id of the viewer is not valid.
    """
    paths = [(layout.long_term(scope), True) for scope in viewer.scopes]
    for day in (today, today - timedelta(days=1)):
        paths += [(layout.daily(day, scope), False) for scope in viewer.scopes]
    notes, failures = [], []
    for path, evergreen in paths:
        try:
            notes.append(Note(path, read_text(resolve(layout.root, path)).text, evergreen))
        except MissingFileError:
            continue
        except (UnreadableFileError, PathError) as error:
            failures.append(str(error))
    context = assemble(notes, max_tokens, settings)
    return Context(context.text, context.tokens, context.files, (*context.cut, *failures))


def assemble(notes: Sequence[Note], max_tokens: int, settings: ContextSettings | None = None) -> Context:
    """The notes in order, each fenced as data, in at most ``max_tokens`` estimated tokens; blank ones are left out.

    Evergreen notes may take seven tenths of the room and dated ones three; what one side does not need goes to the
    other, and likewise among the notes of a side. A note that does not fit is condensed, and ``cut`` says so. An
    evergreen note is left out only if its path and one word of it do not fit; of one that has more lines or bytes than
    ``settings`` allow, the best part is told. Raises UsageError for a budget below 1.
    """
    if type(max_tokens) is not int or max_tokens < 1:
        raise UsageError(f"max_tokens = {max_tokens!r}: expected a whole number of 1 or more")
    notes = [note for note in notes if note.text.strip()]
    settings = settings or ContextSettings()
    wholes = [_told(note, _body(note)) for note in notes]
    # The last gap is dropped in the end.
    left = max_tokens * WEIGHT_PER_TOKEN + weigh(_GAP)
    shares = _shares(notes, [weigh(whole) for whole in wholes], left)
    parts, files, cut = [], [], []
    for number, (note, whole) in enumerate(zip(notes, wholes, strict=True)):
        room = left - sum(shares[number + 1 :])
        fits = weigh(whole) <= room and (not note.evergreen or over_budget(note.text, settings) is None)
        part, loss = (whole, "") if fits else _condensed(note, room, settings)
        if not part and note.evergreen:
            part, loss = _condensed(note, left, settings)
        if part:
            parts.append(part)
            files.append(note.path)
            left -= weigh(part)
        if loss:
            cut.append(f"{note.path}: {loss}")
    text = "".join(parts).removesuffix(_GAP)
    return Context(text, estimate_tokens(text), tuple(files), tuple(cut))


def _shares(notes: Sequence[Note], needs: Sequence[int], room: int) -> list[int]:
    """The room of every note: first divided between the two sides, then evenly within each."""
    sides = [[number for number, note in enumerate(notes) if note.evergreen is side] for side in (True, False)]
    side_needs = [sum(needs[number] for number in side) for side in sides]
    side_rooms = water_fill(side_needs, (_EVERGREEN_TENTHS, 10 - _EVERGREEN_TENTHS), room)
    shares = [0] * len(notes)
    for side, side_room in zip(sides, side_rooms, strict=True):
        for number, share in zip(side, water_fill([needs[n] for n in side], [1] * len(side), side_room), strict=True):
            shares[number] = share
    return shares


def _body(note: Note) -> str:
    return note.text.replace("\r\n", "\n").strip("\n")


def _told(note: Note, body: str) -> str:
    return fence(body, note.path) + _GAP


def _condensed(note: Note, room: int, settings: ContextSettings) -> tuple[str, str]:
    """The note within ``room``, and what it lost; "" and all of it if there is no room for anything."""
    body = _body(note)
    limits = (settings.max_lines, settings.max_bytes) if note.evergreen else (None, None)
    # A shorter body needs no longer bar.
    frame = weigh(_told(note, "")) + 2 * weigh(bar(body)[3:])
    condensed = condense(body, room - frame, f"memory_get {note.path}", *limits)
    if not condensed.text:
        return "", "left out whole"
    return _told(note, condensed.text), cut_note(condensed) if condensed.lost else ""


def over_budget(text: str, settings: ContextSettings) -> str | None:
    """By how much an evergreen page is too long for a context, and what of it is not told; None if it is not."""
    text = text.replace("\r\n", "\n").strip("\n")
    lines, size = text.count("\n") + 1, len(text.encode())
    if lines <= settings.max_lines and size <= settings.max_bytes:
        return None
    condensed = condense(text, weigh(text) + 1, "", settings.max_lines, settings.max_bytes)
    return (
        f"has {lines} lines and {size} bytes; an agent is told at most {settings.max_lines} lines and "
        f"{settings.max_bytes} bytes of it: {cut_note(condensed)}; move details to a page of their own"
    )
