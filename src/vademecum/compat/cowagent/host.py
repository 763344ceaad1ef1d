"""What the host program gives: its log, settings, paths, language and the shapes of its requests and tools."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


def _unset(key: str, default: object = None) -> Any:
    return default


def _home_folder() -> str:
    return "~/cow"


def _no_provider(name: str) -> Mapping[str, Any] | None:
    return None


@dataclass(slots=True)
class Request:
    """What a model is called with where the host has no class of its own for it."""

    messages: list[dict[str, Any]]
    system: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    stream: bool = False
    tools: list[dict[str, Any]] | None = None


@dataclass(slots=True)
class ToolResult:
    """What a tool answers where the host has no class of its own for it; ``status`` is "success" or "error"."""

    status: str
    result: Any
    ext_data: Any = None

    @staticmethod
    def success(result: Any, ext_data: Any = None) -> ToolResult:
        """The tool did its work."""
        return ToolResult("success", result, ext_data)

    @staticmethod
    def fail(result: Any, ext_data: Any = None) -> ToolResult:
        """It did not; ``result`` says why."""
        return ToolResult("error", result, ext_data)


class Tool:
    """A tool as the host calls it, where it has no class of its own for it."""

    name = ""
    description = ""
    params: Mapping[str, Any] = {}

    @classmethod
    def get_json_schema(cls) -> dict[str, Any]:
        """Name, description and parameters for a model."""
        return {"name": cls.name, "description": cls.description, "parameters": cls.params}

    def execute_tool(self, params: dict[str, Any]) -> Any:
        """`execute`, under the name by which the host calls tools."""
        return self.execute(params)

    def execute(self, params: dict[str, Any]) -> Any:
        """Do the work."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host's services. What is not given has a default that touches nothing of the host's.

    ``conf`` is asked for keys of its config.json; ``workspace`` tells the folder of the agent that is being served;
    ``custom_provider`` gives the entry of custom_providers with that id (api_key, api_base, model). ``language`` is
    that of prompts, "en" or "zh", or anything else for that of the conversation. ``request`` makes what the host's
    language model is called with; ``tool`` and ``tool_result`` are its base classes. These three are by default those
    of CowAgent where it is there, and looked for when they are first needed: its packages import the memory themselves.
    """

    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("vademecum.cowagent"))
    conf: Callable[..., Any] = _unset
    workspace: Callable[[], str | os.PathLike[str]] = _home_folder
    expand_path: Callable[[str], str] = os.path.expanduser
    language: Callable[[], str] = lambda: "auto"
    custom_provider: Callable[[str], Mapping[str, Any] | None] = _no_provider
    request: Callable[..., Any] | None = None
    tool: type | None = None
    tool_result: Any = None

    def folder(self, path: str | os.PathLike[str]) -> Path:
        """The real path that ``path`` means to the host."""
        return Path(os.path.realpath(self.expand_path(os.fspath(path))))

    def request_class(self) -> Callable[..., Any]:
        """What makes a request."""
        return self.request or _loaded("agent.protocol.models", "LLMRequest") or Request

    def tool_class(self) -> Any:
        """What tools derive from."""
        return self.tool or _loaded("agent.tools.base_tool", "BaseTool") or Tool

    def result_class(self) -> Any:
        """What tools answer with."""
        return self.tool_result or _loaded("agent.tools.base_tool", "ToolResult") or ToolResult


_host = Host()


def use(host: Host) -> None:
    """Make ``host`` the one whose services are asked for."""
    global _host  # noqa: PLW0603 - the host's own modules are as global
    _host = host


def host() -> Host:
    """The services in use."""
    return _host


def host_of_cowagent() -> Host:
    """The services of CowAgent, as far as its modules can be imported; none of those is below ``agent``."""
    given: dict[str, Any] = {}
    conf = _member("config", "conf")
    if conf is not None:

        def ask(key: str, default: object = None) -> Any:
            return conf().get(key, default)

        given["conf"] = ask
        given["custom_provider"] = lambda name: _listed(ask("custom_providers"), name)
        given["workspace"] = lambda: ask("agent_workspace", _home_folder())
    for name, (module, member) in _SERVICES.items():
        found = _member(module, member)
        if found is not None:
            given[name] = found
    return Host(**given)


_SERVICES = {
    "logger": ("common.log", "logger"),
    "expand_path": ("common.utils", "expand_path"),
    "workspace": ("common.state_dir", "state_root_str"),
    "language": ("common.i18n", "get_language"),
}


def _member(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _loaded(module: str, name: str) -> Any:
    """A member of a module of the host that has been imported already."""
    return getattr(sys.modules.get(module), name, None)


def _listed(providers: object, name: str) -> Mapping[str, Any] | None:
    entries = providers if isinstance(providers, list) else []
    return next((entry for entry in entries if isinstance(entry, Mapping) and str(entry.get("id")) == name), None)
