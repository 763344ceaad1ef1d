"""Prompts that a user picks in a client: recall, save and review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vademecum.errors import UsageError, shown
from vademecum.store.prompt import Language
from vademecum.tools.handlers import Tools


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """A prompt. ``tool`` answers with what follows the text, and ``argument`` is what it is given."""

    name: str
    description: Mapping[Language, str]
    text: Mapping[Language, str]
    tool: str
    argument: str = ""
    argument_note: Mapping[Language, str] | None = None
    writes: bool = False


def prompt_specs(tools: Tools) -> tuple[PromptSpec, ...]:
    """The prompts that go with these tools."""
    return tuple(prompt for prompt in _PROMPTS if not prompt.writes or "memory_update" in tools.specs)


def filled(tools: Tools, name: str, arguments: Mapping[str, str], language: Language) -> str:
    """The text of a prompt with what the memory has to say. Raises UsageError."""
    prompts = {prompt.name: prompt for prompt in prompt_specs(tools)}
    if name not in prompts:
        raise UsageError(f"there is no prompt {shown(name)}; there are {', '.join(prompts)}")
    prompt = prompts[name]
    given = arguments.get(prompt.argument, "").strip()
    if prompt.argument and not given:
        raise UsageError(f"{name} needs {prompt.argument}")
    known = tools.call(prompt.tool, {"query": given} if prompt.argument else {})
    return f"{prompt.text[language].format(given)}\n\n{known.text}"


_PROMPTS = (
    PromptSpec(
        "recall",
        {"en": "Answer from memory", "zh": "根据记忆回答"},
        {
            "en": "Answer from what is remembered, with path and lines of each source; search again in other words if "
            "it is not enough, and say so if nothing is known.\n\nThe question: {0}\n\nWhat the memory found:",
            "zh": "请根据记忆回答，并注明每个来源的路径和行号；不够就换个说法再搜，没有就直说。"
            "\n\n问题：{0}\n\n记忆中找到的内容：",
        },
        tool="memory_search",
        argument="question",
        argument_note={"en": "what you want to know", "zh": "想知道什么"},
    ),
    PromptSpec(
        "save",
        {"en": "Keep what matters of this conversation", "zh": "保存本次对话的要点"},
        {
            "en": "Go through this conversation and keep with memory_update what will matter later: preferences, "
            "rules, decisions, facts. One whole sentence each; what passes goes to file = daily. Correct what has "
            "become wrong, leave out what is known already, and never store passwords or keys. Then list what you "
            "wrote.\n\nWhat is known:",
            "zh": "回顾本次对话，用 memory_update 保存以后会用到的内容：偏好、规则、决定、事实。"
            "每条写成一个完整的句子；临时的内容写入 file = daily。"
            "改正已经不对的内容，已知的不再重复，绝不保存密码或密钥。最后列出写了什么。"
            "\n\n已知内容：",
        },
        tool="memory_context",
        writes=True,
    ),
    PromptSpec(
        "review",
        {"en": "Go through the memory and propose corrections", "zh": "检查记忆并提出修改建议"},
        {
            "en": "Review what is remembered: name contradictions, duplicates, and what is out of date or unclear, "
            "with path and line. Propose each change first; make it with memory_update only after the user has "
            "agreed.\n\nWhat is remembered:",
            "zh": "检查记忆：指出矛盾、重复、过时或不清楚的内容，注明路径和行号。先逐条提出修改建议，用户同意后才用 "
            "memory_update 修改。\n\n记忆内容：",
        },
        tool="memory_context",
        writes=True,
    ),
)
