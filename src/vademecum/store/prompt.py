"""A section for an agent's system prompt: how to use the memory, and what it should know at once."""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from string import Template
from typing import Literal, TypeAlias, get_args

from vademecum.text.estimate import estimate_tokens
from vademecum.types import Context

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


def system_prompt(context: Context, today: date, language: Language) -> Context:
    """The context with the rules for recalling and remembering before it; ``tokens`` is the estimate for all of it."""
    template = files(__package__).joinpath("prompts", f"system.{language}.txt").read_text(encoding="utf-8")
    values = {"today": today.isoformat(), "cut": "; ".join(context.cut), "context": context.text}
    # A paragraph about what there is not would only be in the way.
    missing = [f"${name}" for name, value in values.items() if not value]
    paragraphs = (part for part in template.split("\n\n") if not any(name in part for name in missing))
    text = Template("\n\n".join(paragraphs)).substitute(values).strip()
    return Context(text, estimate_tokens(text), context.files, context.cut)
