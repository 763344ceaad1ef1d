"""The texts that a model is asked with. They are files, so that users can put their own in their place."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from vademecum.errors import SettingsError, StoreError
from vademecum.store.root import check_private

Language: TypeAlias = Literal["en", "zh"]
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_HAN = re.compile("[\u4e00-\u9fff]")
_LARGEST = 100_000


def language_of(text: str) -> Language:
    """Chinese if more than a tenth of a text's letters are Han, else English."""
    letters = sum(map(str.isalpha, text))
    return "zh" if len(_HAN.findall(text)) * 10 > letters else "en"


def load(name: str, language: Language, own: Path) -> str:
    """The prompt ``name`` in a language: ``<own>/<name>.<language>.txt`` if the user has one, else ours.

    Raises SettingsError for a name that nobody has, or a file of the user's that cannot be read.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(f"prompt {name!r}: a name has letters a-z, digits, - and _")
    file = f"{name}.{language}.txt"
    mine = own / file
    if os.path.lexists(mine):
        try:
            check_private(own, file)  # a link could lead to any file, and a pipe would have us wait for ever
            text = mine.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError, StoreError) as error:
            raise SettingsError(f"{mine}: cannot be read: {error}") from error
        if not text.strip() or len(text) > _LARGEST:
            raise SettingsError(f"{mine}: expected a text of 1 to {_LARGEST} characters; delete it to use ours")
        return text.strip()
    ours = files("vademecum.writeback") / "prompts" / file
    if not ours.is_file():
        raise SettingsError(f"there is no prompt {name!r} in {language}; put it into {mine}")
    return ours.read_text(encoding="utf-8").strip()


def compose(name: str, language: Language, domain: str, own: Path) -> str:
    """The prompt ``name`` with the section of its ``domain`` ("general", "finance", or the user's own) filled in."""
    return load(name, language, own).replace("{domain}", load(f"domain-{domain}", language, own))
