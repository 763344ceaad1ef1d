"""What goes into the configuration of MCP clients, so that they start the server or find it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from vademecum.errors import UsageError

ClientName: TypeAlias = Literal["claude-desktop", "claude-code", "cursor", "vscode"]
CLIENTS: tuple[ClientName, ...] = get_args(ClientName)
#: Where each client looks for it.
FILES: dict[ClientName, str] = {
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "claude-code": ".mcp.json in the project's folder",
    "cursor": ".cursor/mcp.json in the project's folder, or ~/.cursor/mcp.json",
    "vscode": ".vscode/mcp.json in the project's folder",
}
#: How each client puts the variable into a header, so that no file holds the secret itself.
_TOKEN: dict[ClientName, str] = {
    "claude-code": "${VADEMECUM_MCP_TOKEN}",
    "cursor": "${env:VADEMECUM_MCP_TOKEN}",
    "vscode": "${input:vademecum-token}",
}


def started_config(client: ClientName, command: Sequence[str]) -> dict[str, Any]:
    """The client starts the server itself, with this command, and speaks over its standard input and output."""
    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    if client == "vscode":
        return {"servers": {"memory": {"type": "stdio", **entry}}}
    return {"mcpServers": {"memory": entry}}


def http_config(client: ClientName, url: str, *, token: bool) -> dict[str, Any]:
    """The server runs at ``url``; ``token`` says that it asks for one. Raises UsageError if the client cannot do it."""
    if client == "claude-desktop":
        raise UsageError("claude-desktop starts servers itself; leave --http out")
    entry: dict[str, Any] = {"url": url} if client == "cursor" else {"type": "http", "url": url}
    if token:
        entry["headers"] = {"Authorization": f"Bearer {_TOKEN[client]}"}
    if client != "vscode":
        return {"mcpServers": {"memory": entry}}
    asked = {"type": "promptString", "id": "vademecum-token", "description": "Token of the memory", "password": True}
    return {"servers": {"memory": entry}, **({"inputs": [asked]} if token else {})}
