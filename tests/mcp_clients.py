"""Clients of the Model Context Protocol written from its specification: they share no line with the SDK's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

VERSION = "2025-06-18"
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
#: For a server in a process of its own: settings as tests want them.
ENVIRONMENT = {
    "VADEMECUM_EMBEDDING__PROVIDER": "none",
    "VADEMECUM_SEARCH__WAIT_MS": "60000",
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
}


def command(root: Path, *options: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "vademecum", "mcp", "--root", str(root), *options]


class ByHand:
    """What both clients can do once they can ``request``."""

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.request(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        (content,) = self.result("tools/call", name=name, arguments=dict(arguments))["content"]
        return content["text"]


class StdioByHand(ByHand):
    """Starts the server and speaks line by line. ``lines`` is every line that it wrote to its standard output."""

    def __init__(self, root: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            command(root, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
        )
        self.lines: list[bytes] = []
        self._number = 0

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        self.lines.append(line)
        return json.loads(line)

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.write(json.dumps(asked).encode())
        while (answer := self.read()).get("id") != self._number:
            pass
        return answer

    def wait_for(self, method: str) -> dict[str, Any]:
        """The next notification of this kind."""
        while (message := self.read()).get("method") != method:
            pass
        return message["params"]

    def __enter__(self) -> Self:
        self.result("initialize", **HELLO)
        self.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            rest, errors = self.process.communicate(timeout=30)
        finally:
            self.process.kill()
        self.lines += rest.splitlines()
        if error is None:
            assert self.process.returncode == 0, errors
            assert b"Traceback" not in errors, errors


class HttpByHand(ByHand):
    """One request, one connection."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port = port
        self.headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"
        self._number = 0

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/mcp", body, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        status, headers, body = self.post(json.dumps(asked).encode())
        assert status == 200, body
        if method == "initialize":
            self.headers |= {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": VERSION}
            self.post(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        if headers["content-type"].startswith("application/json"):
            return json.loads(body)
        events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
        return next(event for event in events if event.get("id") == self._number)

    def __enter__(self) -> Self:
        self.result("initialize", **HELLO)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is kept."""


class Served:
    """``vademecum mcp --http`` in a process of its own."""

    def __init__(self, root: Path, *options: str, token: str | None = None) -> None:
        self.process = subprocess.Popen(
            command(root, "--http", "0", "--json", *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT, **({"VADEMECUM_MCP_TOKEN": token} if token else {})},
        )
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.token = token

    def client(self) -> HttpByHand:
        return HttpByHand(self.port, self.token)

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        try:
            rest, errors = self.process.communicate(timeout=30)
        finally:
            self.process.kill()
        assert (self.process.returncode, rest) == (0, b""), errors
        assert b"Traceback" not in errors, errors
