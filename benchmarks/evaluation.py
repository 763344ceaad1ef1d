"""The public evaluation sets as memories with questions; they are read where they are, never copied here."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

#: Days over which dated variants spread their pages.
SPREAD_DAYS = 3 * 365


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and which page answers it."""

    text: str
    page: int


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Pages of one memory, and questions of which each has one right page."""

    name: str
    pages: tuple[str, ...]
    questions: tuple[Question, ...]

    def write(self, root: Path) -> list[str]:
        """One topic page each; returns the path of page i at position i."""
        paths = [f"notes/{number:04d}.md" for number in range(len(self.pages))]
        self._write(root, paths)
        return paths

    def write_dated(self, root: Path, today: date, seed: int) -> list[str]:
        """One daily page each, on random days of the last three years."""
        ages = random.Random(seed).sample(range(SPREAD_DAYS), len(self.pages))
        paths = [f"memory/{(today - timedelta(days=age)).isoformat()}.md" for age in ages]
        self._write(root, paths)
        return paths

    def _write(self, root: Path, paths: Sequence[str]) -> None:
        for path, text in zip(paths, self.pages, strict=True):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n", encoding="utf-8")


def data_folder() -> Path | None:
    """VADEMECUM_EVAL_DATA, else ``../shared/data`` beside the repository; None if it is not there."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("VADEMECUM_EVAL_DATA") or beside)
    return folder if (folder / "memory_questions.json").is_file() else None


def load(folder: Path) -> list[EvaluationSet]:
    """Memory questions (English, Chinese, across languages) and XQuAD (each language, and across)."""
    english, chinese = (_xquad(folder / f"xquad.{language}.json") for language in ("en", "zh"))
    return [
        *_memory_questions(folder / "memory_questions.json"),
        EvaluationSet("xquad en", english[0], english[1]),
        EvaluationSet("xquad zh", chinese[0], chinese[1]),
        EvaluationSet("xquad en→zh", chinese[0], english[1]),
        EvaluationSet("xquad zh→en", english[0], chinese[1]),
    ]


def _memory_questions(file: Path) -> list[EvaluationSet]:
    data = json.loads(file.read_text(encoding="utf-8"))
    notes = tuple(data["notes"])
    groups = {"memory en": {"en"}, "memory zh": {"zh"}, "memory across": {"x_zh2en", "x_en2zh"}}
    return [
        EvaluationSet(name, notes, tuple(Question(q["q"], q["note"]) for q in data["questions"] if q["set"] in sets))
        for name, sets in groups.items()
    ]


def _xquad(file: Path) -> tuple[tuple[str, ...], tuple[Question, ...]]:
    data = json.loads(file.read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    questions = tuple(
        Question(answer["question"], number)
        for number, paragraph in enumerate(paragraphs)
        for answer in paragraph["qas"]
    )
    return tuple(paragraph["context"] for paragraph in paragraphs), questions
