"""What a model wanted to make of MEMORY.md and must not: kept beside, for a person to look at."""

from __future__ import annotations

import os
from datetime import date
from hashlib import sha256
from pathlib import Path

from vademecum.errors import WriteError
from vademecum.store.disk import CREATE
from vademecum.store.root import private_folder

FOLDER = "proposals"
_MOST = 20


def propose(root: Path, day: date, text: str, reason: str) -> str | None:
    """Keep ``text`` with the reason why it was refused; returns its path relative to the root, None for no text.

    The newest twenty are kept. Raises WriteError.
    """
    if not text.strip():
        return None
    folder = private_folder(root) / FOLDER
    name = f"{day}-{sha256(text.encode()).hexdigest()[:8]}.md"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        file = folder / name
        if not os.path.lexists(file):
            with os.fdopen(os.open(file, CREATE, 0o600), "w", encoding="utf-8") as stream:
                stream.write(f"<!-- refused: {reason.replace('--', '- -')} -->\n\n{text}")
        for old in sorted(folder.glob("*.md"))[:-_MOST]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise WriteError(f"{folder}: a refused proposal cannot be kept: {error.strerror}") from error
    return file.relative_to(root).as_posix()
