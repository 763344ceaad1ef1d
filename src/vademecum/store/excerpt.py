"""Lines of one page."""

from __future__ import annotations

from pathlib import Path

from vademecum.errors import UsageError
from vademecum.store.files import read_text
from vademecum.store.paths import resolve
from vademecum.text.markdown import split_lines
from vademecum.types import Excerpt


def read_lines(root: Path, path: str, start: int = 1, lines: int | None = None, max_bytes: int = 65_536) -> Excerpt:
    """``lines`` lines (None: all) from line ``start`` on, 1-based, joined by "\\n" and without a final one.

    When the answer would be longer than ``max_bytes`` of UTF-8, it ends with the last line that fits whole, or
    inside the first one if not even that fits, and says ``truncated``. A start beyond the end gives no text and
    ``end_line`` 0; ``total_lines`` then tells what there is.

    Raises UsageError for numbers below 1, PathError, MissingFileError or UnreadableFileError.
    """
    _positive("start", start)
    _positive("max_bytes", max_bytes)
    if lines is not None:
        _positive("lines", lines)
    location = resolve(root, path)
    page = read_text(location)
    every = [line.rstrip("\r\n") for line in split_lines(page.text)]
    wanted = every[start - 1 : None if lines is None else start - 1 + lines]
    whole = "\n".join(wanted)
    text = _within(whole, max_bytes)
    return Excerpt(
        path=location.path,
        start_line=start,
        end_line=start + text.count("\n") if wanted else 0,
        total_lines=len(every),
        text=text,
        truncated=len(text) < len(whole),
        hash=page.hash,
    )


def _within(text: str, max_bytes: int) -> str:
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    short = data[:max_bytes].decode(errors="ignore")
    # One character more, because the cut may fall exactly on the end of a line.
    lines, end, _ = text[: len(short) + 1].rpartition("\n")
    return lines if end else short


def _positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} = {value!r}: expected a whole number of 1 or more")
