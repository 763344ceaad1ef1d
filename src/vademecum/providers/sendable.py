"""Text as it may be sent to a model."""

from __future__ import annotations


def sendable(text: str) -> str:
    """``text`` without NUL and lone surrogates: models end a text at the one, and clients raise on the other."""
    text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16 the two halves of one character become that character; a half without its other is lost.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text
