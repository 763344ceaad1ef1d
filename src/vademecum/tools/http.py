"""The MCP server over HTTP: who may speak to it, and where it listens. The only module that imports ``uvicorn``."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias

import uvicorn
from starlette.middleware.cors import CORSMiddleware

from vademecum.errors import UsageError, VademecumError
from vademecum.store.prompt import Language
from vademecum.tools.handlers import Tools
from vademecum.tools.mcp import http_app

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Shorter secrets can be guessed.
_SHORTEST_TOKEN = 16
#: Seconds within which a client must have sent what it has to say.
_BODY_S = 30.0
_MOST_CONNECTIONS = 512


@dataclass(frozen=True, slots=True)
class Door:
    """Where to listen, and for whom.

    Beyond loopback a ``token`` is required. ``hosts`` are further names under which clients reach the server, and
    ``origins`` those of web pages that may speak to it, such as "https://example.org".
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"port = {self.port}: expected 0 to 65535")
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines: a token is required "
                "(--token-file, or the variable VADEMECUM_MCP_TOKEN)"
            )
        if self.token is not None and (len(self.token) < _SHORTEST_TOKEN or not self.token.isascii()):
            raise UsageError(f"the token is too short or not ASCII: at least {_SHORTEST_TOKEN} characters are needed")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listening(door: Door) -> socket.socket:
    """A socket at the door's address; port 0 is any free one. Raises VademecumError if that cannot be."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            door.host, door.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise VademecumError(f"{door.host}: there is no such address: {error}") from None
    found = socket.socket(family, kind, number)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()
    except OSError as error:
        found.close()
        raise VademecumError(f"{door.host}:{door.port}: cannot listen there: {error}") from None
    return found


def serve_http(tools: Tools, door: Door, at: socket.socket, language: Language = "en") -> None:
    """Serve any number of clients at ``http://<host>:<port>/mcp`` until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        guarded_app(tools, door, language),
        log_config=None,
        access_log=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[at])


def guarded_app(tools: Tools, door: Door, language: Language = "en") -> Application:
    """The server as an ASGI application that lets nobody in whom the door does not know."""
    own = f"[{door.host}]" if ":" in door.host else door.host
    hosts = tuple(dict.fromkeys((*_LOOPBACK, own, *door.hosts)))
    origins = (*(f"http://{host}" for host in hosts), *door.origins)
    return CORSMiddleware(
        _Guard(http_app(tools, language, hosts, origins), door.token),
        allow_origin_regex="|".join(rf"{re.escape(origin)}(:\d+)?" for origin in origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Mcp-Session-Id"],
    )


class _Guard:
    """Asks for the token, and waits for slow clients only so long."""

    def __init__(self, app: Any, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if self._expected is not None and not hmac.compare_digest(given, self._expected):
            await _refuse(send, 401, "a token is required: send the header Authorization: Bearer <token>")
            return
        await self._served_in_time(scope, receive, send)

    async def _served_in_time(self, scope: Message, receive: Receive, send: Send) -> None:
        end = asyncio.get_running_loop().time() + _BODY_S
        complete = late = False

        async def read() -> Message:
            nonlocal complete, late
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                late = True
                await _refuse(send, 408, f"the request was not complete after {_BODY_S:g} s")
                return {"type": "http.disconnect"}
            complete = not message.get("more_body", False)
            return message

        async def write(message: Message) -> None:
            if not late:
                await send(message)

        try:
            await self._app(scope, read, write)
        except Exception:
            if not late:
                raise


async def _refuse(send: Send, status: int, reason: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": reason}).encode()})
