"""Cutting a text that is too long for a model."""

from __future__ import annotations


def pieces(text: str, max_bytes: int) -> list[str]:
    """Consecutive pieces of ``text``, each of at most ``max_bytes`` (at least 4) of UTF-8; together they are ``text``.

    Cut after the last line break in a piece's second half, else after the last space there, else between characters.
    """
    found: list[str] = []
    while text:
        piece = text.encode()[:max_bytes].decode(errors="ignore")
        if len(piece) < len(text):
            cuts = (piece.rfind(mark, len(piece) // 2) + 1 for mark in ("\n", " "))
            piece = piece[: next(filter(None, cuts), len(piece))]
        found.append(piece)
        text = text[len(piece) :]
    return found
