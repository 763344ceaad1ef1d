"""An OpenAI-compatible server on 127.0.0.1 that misbehaves on request. Standard library only, plus hashing.

::

    with Loopback(dims=64) as server:
        server.next(status(500), status(429, headers={"Retry-After": "1"}))   # the next two requests
        server.always(vectors())                                             # every one after that (the default)
        ...                                                                  # any client at server.base_url
        assert server.count == 3
        assert server.bodies[0]["encoding_format"] == "float"

        server.say("first answer", status(500), answer("cut o", finish="length"))   # a chat model's next answers
        server.always_say(answer(lambda messages: messages[-1]["content"].upper()))
        assert server.chats[0]["messages"][0]["role"] == "system"

Embeddings and chat have scripts of their own; ``requests``, ``count`` and ``bodies`` hold both.

A behaviour is a function of the exchange; those below cover what real servers have been seen to do.
"""

from __future__ import annotations

import json
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from embedders import hashed_row

_EMBEDDINGS = ("/v1/embeddings", "/v1/embeddings/multimodal")
#: Of OpenAI, and of Anthropic.
_CHATS = ("/v1/chat/completions", "/v1/messages")


@dataclass(frozen=True)
class Request:
    """What a client sent; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def inputs(self) -> list[str]:
        given = self.body.get("input", [])
        texts = [given] if isinstance(given, str) else given
        return [text["text"] if isinstance(text, dict) else text for text in texts]


@dataclass
class Exchange:
    """One request and the means to answer it."""

    server: Loopback
    request: Request
    handler: BaseHTTPRequestHandler

    def send(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        """Answer with JSON, or with bytes as they are."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.handler.send_header(name, value)
        self.handler.send_header("Content-Length", str(len(body)))
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def client_left(self, within: float) -> bool:
        """Wait until the client closes the connection, the server stops or the time is over."""
        end = time.monotonic() + within
        while time.monotonic() < end and not self.server.stopped.is_set():
            readable, _, _ = select.select([self.handler.connection], [], [], 0.02)
            if readable:
                return True
        return False


Behaviour = Callable[[Exchange], None]
Messages = list[dict[str, str]]


def answer(
    words: str | Callable[[Messages], str],
    *,
    finish: str | None = "stop",
    json_mode: bool = True,
    length_field: str = "max_tokens",
    message: Mapping[str, Any] | None = None,
) -> Behaviour:
    """What a chat model says: a text, or one made from the conversation. ``finish``: why it stopped.

    Without ``json_mode`` a request for JSON gets a 400; so does a length under another name than ``length_field``.
    ``message`` replaces fields of the message.
    """

    def speak(exchange: Exchange) -> None:
        body = exchange.request.body
        for field_name in {"max_tokens", "max_completion_tokens"} - {length_field}:
            if field_name in body:
                return _error(exchange, 400, f"Unsupported parameter: '{field_name}'. Use '{length_field}' instead.")
        if "response_format" in body and not json_mode:
            return _error(exchange, 400, "不支持该参数")
        text = words if isinstance(words, str) else words(body["messages"])
        said = {"role": "assistant", "content": text, **(message or {})}
        asked, given = sum(len(part["content"]) for part in body["messages"]) // 4, len(text) // 4
        return exchange.send(
            200,
            {
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": said, "finish_reason": finish}],
                "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given},
            },
        )

    return speak


def vectors(
    *,
    extra: int = 0,
    shuffled: bool = False,
    dims: int | None = None,
    scale: float = 1.0,
    first: Any = None,
    indices: Callable[[int], Any] | None = None,
    refuses: Callable[[str], bool] | None = None,
    fails: Callable[[str], bool] | None = None,
    max_inputs: int | None = None,
    max_text_bytes: int | None = None,
    too_long: int = 400,
    allows_base64: bool = False,
    honours_dimensions: bool = True,
) -> Behaviour:
    """Hashed words: texts that share words are near each other.

    ``extra`` vectors more (or fewer) than texts; ``shuffled``: in reverse, with the right indices; ``scale``: their
    length; ``first`` replaces the first vector (a list, or whatever else JSON can say); ``indices`` replaces each
    index. A request with a text that ``refuses``, with more than ``max_inputs`` texts or an empty one, or for base64
    gets a 400; with a text of more than ``max_text_bytes`` the status ``too_long``; with one that ``fails`` a 500.
    """

    def answer(exchange: Exchange) -> None:
        request = exchange.request
        inputs = request.inputs
        if request.body.get("encoding_format", "base64") != "float" and not allows_base64:
            return _error(exchange, 400, "encoding_format base64 is not supported")
        if not inputs or "" in inputs:
            return _error(exchange, 400, "input cannot be an empty string")
        if max_inputs is not None and len(inputs) > max_inputs:
            return _error(exchange, 400, f"单次请求的文本数量不能超过{max_inputs}条")
        if refuses is not None and any(map(refuses, inputs)):
            return _error(exchange, 400, "input was rejected")
        asked = request.body.get("dimensions", request.body.get("output_dimension")) if honours_dimensions else None
        if max_text_bytes is not None and max(len(text.encode()) for text in inputs) > max_text_bytes:
            return _error(exchange, too_long, "le texte est trop long pour le modèle")
        if fails is not None and any(map(fails, inputs)):
            return _error(exchange, 500, "tokenizer crashed", headers={"Retry-After": "0"})
        size = dims or asked or exchange.server.dims
        rows: list[Any] = [[scale * float(x) for x in hashed_row(text, size)] for text in inputs]
        rows = rows[: len(rows) + extra] if extra < 0 else rows + [rows[0]] * extra
        if first is not None:
            rows[0] = first
        numbers = [indices(i) if indices else i for i in range(len(rows))]
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in zip(numbers, rows, strict=True)]
        if request.path.endswith("/multimodal"):
            return exchange.send(200, {"object": "list", "data": {"object": "embedding", "embedding": rows[0]}})
        return exchange.send(200, {"object": "list", "data": data[::-1] if shuffled else data, "model": "loopback"})

    return answer


def status(
    code: int, message: str = "no", *, error: str | None = None, headers: Mapping[str, str] | None = None
) -> Behaviour:
    """An HTTP error in the vendor's form; ``error`` is its machine-readable code, such as "insufficient_quota"."""
    return lambda exchange: _error(exchange, code, message, error, headers)


def raw(body: bytes, code: int = 200, content_type: str = "text/html") -> Behaviour:
    """Whatever a wrong address or a proxy may answer."""
    return lambda exchange: exchange.send(code, body, {"Content-Type": content_type})


def slow(seconds: float) -> Behaviour:
    """Take a while, and answer all the same."""

    def late(exchange: Exchange) -> None:
        exchange.server.stopped.wait(seconds)
        vectors()(exchange)

    return late


def hang(seconds: float = 60.0) -> Behaviour:
    """Take the request, say nothing. ``server.abandoned`` counts the clients that gave up."""

    def answer(exchange: Exchange) -> None:
        if exchange.client_left(seconds):
            exchange.server.abandon()
        exchange.handler.close_connection = True

    return answer


def trickle(interval: float = 0.05, seconds: float = 60.0) -> Behaviour:
    """A reply that goes on for ever: no single read is late, the whole is."""

    def answer(exchange: Exchange) -> None:
        handler = exchange.handler
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and not exchange.client_left(interval):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                if exchange.server.stopped.is_set():
                    return
        except OSError:
            pass
        exchange.server.abandon()

    return answer


def disconnect() -> Behaviour:
    """Close the connection without a word."""

    def answer(exchange: Exchange) -> None:
        exchange.handler.close_connection = True

    return answer


def break_off() -> Behaviour:
    """Close the connection in the middle of a reply."""

    def answer(exchange: Exchange) -> None:
        handler = exchange.handler
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"data": [')

    return answer


def _error(
    exchange: Exchange,
    code: int,
    message: str,
    error: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    exchange.send(code, {"error": {"message": message, "type": error or "error", "code": error}}, headers)


@dataclass
class Loopback:
    """The server; a context manager. Everything a client sent is in ``requests``."""

    dims: int = 64
    requests: list[Request] = field(default_factory=list)
    abandoned: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._scripted: deque[Behaviour] = deque()
        self._default: Behaviour = vectors()
        self._said: deque[Behaviour] = deque()
        self._always_said: Behaviour = status(400, "the test scripted no answer")
        self._lock = threading.Lock()

    def next(self, *behaviours: Behaviour) -> None:
        """Answer the next requests so, one each, in order."""
        with self._lock:
            self._scripted.extend(behaviours)

    def always(self, behaviour: Behaviour) -> None:
        """Answer so whatever :meth:`next` does not cover."""
        with self._lock:
            self._default = behaviour

    def say(self, *answers: str | Behaviour) -> None:
        """Answer the next chat requests so, one each, in order."""
        with self._lock:
            self._said.extend(answer(said) if isinstance(said, str) else said for said in answers)

    def always_say(self, said: str | Behaviour) -> None:
        """Answer so whatever chat request :meth:`say` does not cover."""
        with self._lock:
            self._always_said = answer(said) if isinstance(said, str) else said

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the chat requests."""
        return [request.body for request in self.requests if request.path in _CHATS]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def bodies(self) -> Sequence[dict[str, Any]]:
        return [request.body for request in self.requests]

    @property
    def inputs(self) -> list[list[str]]:
        """The texts of each request."""
        return [request.inputs for request in self.requests]

    def abandon(self) -> None:
        with self._lock:
            self.abandoned += 1

    def wait_for(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Whether ``condition`` comes true in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def __enter__(self) -> Loopback:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._http.shutdown()
        self._thread.join()
        self._http.block_on_close = False  # kept-alive connections end with their clients
        self._http.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", "0"))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(
            handler.path.partition("?")[0].rstrip("/"), headers, json.loads(handler.rfile.read(length) or b"{}")
        )
        with self._lock:
            self.requests.append(request)
            if request.path in _CHATS:
                behaviour = self._said.popleft() if self._said else self._always_said
            elif request.path in _EMBEDDINGS:
                behaviour = self._scripted.popleft() if self._scripted else self._default
            else:
                behaviour = status(404, f"no route {request.path}")
        with suppress(ConnectionError):  # clients that do not wait may leave
            behaviour(Exchange(self, request, handler))

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                loopback._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        return Handler
