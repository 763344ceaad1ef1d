"""The section for a system prompt: whole, in two languages, and with what was cut."""

from __future__ import annotations

import pytest

from memories import OpenMemory
from vademecum.cli import main
from vademecum.errors import UsageError
from vademecum.text.estimate import estimate_tokens


@pytest.mark.parametrize(("language", "policy"), [("en", "Search before you advise."), ("zh", "先检索，再建议。")])
def test_the_prompt_says_when_to_look_what_to_keep_and_what_is_known(
    open_memory: OpenMemory, language: str, policy: str
) -> None:
    memory = open_memory({"MEMORY.md": "- Costs $5, ${today} and $nothing.\n"})
    prompt = memory.prompt(language)  # type: ignore[arg-type]
    for part in (policy, "memory_search", "memory_get", "memory_update", "~~~", str(memory.status().today)):
        assert part in prompt.text
    assert prompt.text.endswith("~~~ MEMORY.md\n- Costs $5, ${today} and $nothing.\n~~~")
    assert prompt.tokens == estimate_tokens(prompt.text)
    assert (prompt.files, prompt.cut) == (("MEMORY.md",), ())
    assert "$cut" not in prompt.text
    assert prompt.text.index("memory_search") < prompt.text.index("memory_get")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_prompt_tells_the_model_what_was_cut(open_memory: OpenMemory, language: str) -> None:
    memory = open_memory({"MEMORY.md": "# M\n\n## Old\n\n" + "- a fact of some length\n" * 900})
    prompt = memory.prompt(language, max_tokens=200)  # type: ignore[arg-type]
    assert len(prompt.cut) == 1
    assert prompt.cut[0] in prompt.text
    assert "items cut from Old" in prompt.cut[0]


def test_an_empty_memory_has_a_prompt_without_an_empty_fence(open_memory: OpenMemory) -> None:
    prompt = open_memory().prompt()
    assert "Search before you advise." in prompt.text
    assert "\n~~~" not in prompt.text
    assert "$" not in prompt.text


def test_an_unknown_language_is_refused_with_the_known_ones(
    open_memory: OpenMemory, capfd: pytest.CaptureFixture[str]
) -> None:
    memory = open_memory({"MEMORY.md": "- a\n"})
    with pytest.raises(UsageError, match="language = 'fr': expected one of en, zh"):
        memory.prompt("fr")  # type: ignore[arg-type]
    assert main(["--root", str(memory.root), "prompt", "--language", "zh"]) == 0
    assert capfd.readouterr().out.startswith("## 记忆\n")
