"""A host of CowAgent's modules finds in ours what it imports; the contract is complete."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import pytest

import vademecum.compat.cowagent as shim
from cowagent_contract import NAMES, covered, resolve
from cowagent_support import install_shim  # noqa: F401 - a fixture
from store_support import python
from vademecum.errors import SettingsError

_FILES = (
    "memory",
    "storage",
    "tools",
    "conversations",
    "knowledge",
    "summaries",
)


def test_every_name_of_the_contract_is_proved_by_a_test() -> None:
    for file in _FILES:
        import_module(f"test_compat_cowagent_{file}")
    assert set(covered) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_of_the_contract_can_be_imported(name: str) -> None:
    resolve(name)


def test_both_names_of_a_module_are_one_module() -> None:
    theirs, ours = import_module("agent.memory.config"), import_module("vademecum.compat.cowagent.memory.config")
    assert theirs is ours
    assert theirs.__spec__ is not None
    assert theirs.__spec__.name == theirs.__name__
    with pytest.raises(ModuleNotFoundError, match=r"agent\.memory\.nothing"):
        import_module("agent.memory.nothing")


def test_installing_twice_exchanges_the_services_only() -> None:
    from vademecum.compat.cowagent.host import host

    finders = list(sys.meta_path)
    own = logging.getLogger("own")
    shim.install(shim.Host(logger=own))
    assert host().logger is own
    assert sys.meta_path == finders


def test_a_host_that_has_imported_its_own_memory_is_told() -> None:
    code = (
        "import sys, types; import vademecum.compat.cowagent as shim\n"
        "sys.modules['agent.memory'] = types.ModuleType('agent.memory')\n"
        "try: shim.install()\nexcept shim.aliases.UsageError as error: print(error)\n"
    )
    assert "agent.memory has been imported already" in python(code).stdout


def test_the_rest_of_the_hosts_packages_stays_its_own() -> None:
    code = """
import sys, pathlib, tempfile
base = pathlib.Path(tempfile.mkdtemp())
for name, text in {
    "agent/__init__.py": "", "agent/protocol/__init__.py": "from agent.memory import MemoryManager\\n",
    "agent/protocol/models.py": "class LLMRequest:\\n    def __init__(self, **fields): self.fields = fields\\n",
    "agent/tools/__init__.py": "from agent.tools.base_tool import BaseTool\\n"
        "from agent.tools.memory.memory_search import MemorySearchTool\\n",
    "agent/tools/memory/__init__.py": "raise SystemExit('their own tools were imported')",
    "agent/tools/base_tool.py": "class BaseTool:\\n    own = True\\nclass ToolResult:\\n    @staticmethod\\n"
        "    def fail(text, ext_data=None): return ('host', text)\\n",
    "agent/memory/__init__.py": "raise SystemExit('their own memory was imported')",
    "common/__init__.py": "", "common/log.py": "import logging\\nlogger = logging.getLogger('host')\\n",
    "config.py": "def conf(): return {'agent_workspace': %r}\\n" % str(base / "cow"),
}.items():
    (base / name).parent.mkdir(parents=True, exist_ok=True)
    (base / name).write_text(text)
sys.path.insert(0, str(base))
import vademecum.compat.cowagent as shim
shim.install()
from agent.tools.memory import MemorySearchTool
from agent.memory import MemoryConfig
from agent.tools.base_tool import BaseTool
import agent.tools
assert issubclass(MemorySearchTool, BaseTool) and MemorySearchTool.own
assert MemorySearchTool(None).execute({}) == ("host", "Error: query parameter is required")
assert MemoryConfig().get_workspace() == (base / "cow").resolve(), MemoryConfig().workspace_root
assert agent.tools.__file__.startswith(str(base)) and agent.tools.MemorySearchTool is MemorySearchTool
from agent.protocol.models import LLMRequest
from vademecum.compat.cowagent.chat import HostChat
class Model:
    def call(self, request):
        assert isinstance(request, LLMRequest), request
        return request.fields["messages"][0]["content"].upper()
assert HostChat(Model()).complete([{"role": "user", "content": "hi"}]).text == "HI"
shim.uninstall()
print("ok")
"""
    assert python(code).stdout == "ok\n"


def test_uninstalling_gives_the_names_back() -> None:
    import_module("agent.memory")
    shim.uninstall()
    with pytest.raises(ModuleNotFoundError):
        import_module("agent.memory")


def test_a_wrong_size_of_chunks_is_refused_by_name() -> None:
    from agent.memory.chunker import TextChunker

    with pytest.raises(SettingsError, match=r"chunk\.overlap_tokens"):
        TextChunker(20, 19)
