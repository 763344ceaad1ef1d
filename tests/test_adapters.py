"""What holds for adapters whether or not their frameworks are there."""

from __future__ import annotations

import pkgutil

import pytest

from store_support import python
from vademecum.tools import adapters

#: The package that a module needs, and the extra that brings it.
NEEDS = {
    "anthropic_memory": ("anthropic", "anthropic"),
    "langchain": ("langchain_core", "langchain"),
    "langgraph": ("langgraph", "langgraph"),
    "llama_index": ("llama_index", "llama-index"),
    "openai_agents": ("agents", "openai-agents"),
}


def test_every_adapter_is_looked_at() -> None:
    assert {module.name for module in pkgutil.iter_modules(adapters.__path__)} == set(NEEDS)


@pytest.mark.parametrize("module", NEEDS)
def test_an_adapter_without_its_framework_names_the_extra(module: str) -> None:
    package, extra = NEEDS[module]
    code = f"""
import sys
sys.modules[{package!r}] = None
from vademecum.errors import PackageMissingError
try:
    import vademecum.tools.adapters.{module}
except PackageMissingError as error:
    assert "pip install 'vademecum[{extra}]'" in str(error), error
else:
    raise AssertionError("imported without its framework")
"""
    python(code)
