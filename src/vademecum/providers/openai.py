"""OpenAI and every server that speaks its protocol. The only module that imports ``openai`` and its HTTP library."""

from __future__ import annotations

import random
import re
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx2
import openai

from vademecum.errors import (
    ProviderDownError,
    ProviderError,
    ProviderMissingError,
    ProviderRefusedError,
    ProviderReplyError,
)
from vademecum.providers.deadline import within

#: 2,048 vectors of 3,072 dimensions are about 140 MB of JSON; what is larger was not asked for.
_MAX_REPLY_BYTES = 256 * 2**20
#: Longest part of a server's own words that is repeated in a message.
_MAX_QUOTE = 300
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0
#: What vendors call used-up credit, under several statuses: OpenAI, DeepSeek, DashScope, Zhipu, Ark.
_NO_CREDIT = frozenset(
    {"insufficient_quota", "billing_not_active", "insufficient_balance", "Arrearage", "1113", "AccountOverdueError"}
)
#: Gemini answers 400 to a wrong key.
_BAD_KEY = re.compile(r"api key not valid|(invalid|incorrect) api key", re.IGNORECASE)
_OPENAI_KEY = "OPENAI_API_KEY"
#: Sent where a server needs no key: the protocol has no way to leave it out.
_NO_KEY = "none"

#: The vendor wraps what breaks before the body of a reply, not what breaks within it.
_BROKEN_TRANSFER = (httpx2.HTTPError, ssl.SSLError, OSError)
#: Every step of a call may take what is left of its deadline, so a late step is a late call.
_LATE = (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError)


class OpenAIClient:
    """One address and one key. Safe to share between threads; connections are kept open until :meth:`close`.

    ``section`` names the settings that messages point to: "embedding" or "chat". Raises ProviderMissingError if no
    connection can be set up from here.
    """

    def __init__(
        self, base_url: str, api_key: str | None, key_name: str, section: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.base_url = base_url
        self._key_name = key_name
        self._secret = api_key
        self._section = section
        # Retries are ours: the vendor's own sleep up to 120 s on Retry-After and know no limit for the whole call.
        # An empty admin key keeps the vendor from looking for one in the environment.
        try:
            self._sdk = openai.OpenAI(base_url=base_url, api_key=api_key or _NO_KEY, admin_api_key="", max_retries=0)
        except (ValueError, ImportError, httpx2.InvalidURL) as error:  # a proxy named in the environment, mostly
            raise ProviderMissingError(
                f"{base_url}: no connection can be set up ({error}); check the address and the proxy variables"
            ) from None
        if key_name != _OPENAI_KEY:
            # Organisation, project and headers that the environment names for OpenAI may be secrets.
            self._sdk.organization = self._sdk.project = None
            self._sdk._custom_headers = {}
        if headers:
            self._sdk._custom_headers = {**self._sdk._custom_headers, **headers}

    def post(self, path: str, body: Mapping[str, Any], *, deadline: float, retries: int) -> bytearray:
        """The body of the reply to ``body``, sent as JSON to ``path`` below the base address.

        ``deadline`` is in seconds and holds for the whole call, name look-up, retries and waits included.
        ``retries`` is how often a rate limit, a failing server or a broken connection is tried again; a Retry-After
        is obeyed if it ends before the deadline.

        Raises ProviderRefusedError (key, quota, model, input), ProviderDownError (everything that may pass) or
        ProviderReplyError (a reply without end). No message holds the key.
        """
        model = str(body.get("model"))

        def work(expires: float) -> bytearray:
            return self._persist(path, body, model, expires, retries)

        try:
            return within(deadline, work)
        except TimeoutError:
            raise ProviderDownError(f"{self.base_url} did not answer within {deadline:g} s", "late") from None

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._sdk.close()

    def _persist(self, path: str, body: Mapping[str, Any], model: str, expires: float, retries: int) -> bytearray:
        attempt = 0
        while True:
            try:
                return self._send(path, body, expires)
            except (openai.OpenAIError, *_BROKEN_TRANSFER) as error:
                if isinstance(error, _LATE):
                    raise TimeoutError from None
                failure, wait = self._translated(error, model), _wait(error, attempt)
                if not failure.retryable or attempt >= retries or time.monotonic() + wait >= expires:
                    # "from None": the vendor's error quotes the server, and servers quote keys.
                    raise failure from None
            time.sleep(wait)
            attempt += 1

    def _send(self, path: str, body: Mapping[str, Any], expires: float) -> bytearray:
        """One request. Streaming, so that a reply that never ends can be given up in the middle."""
        left = expires - time.monotonic()
        if left <= 0:
            raise TimeoutError
        # Not by way of the typed methods: they add fields that some compatible servers refuse.
        opened = self._sdk.post(
            path,
            cast_to=httpx2.Response,
            body=dict(body),
            options={"timeout": left},
            stream=True,
            stream_cls=openai.Stream[object],
        )
        received = bytearray()
        response = cast("httpx2.Response", opened)  # what the vendor gives for this ``cast_to``, unread
        try:
            for piece in response.iter_bytes():
                received += piece
                if time.monotonic() >= expires:
                    raise TimeoutError
                if len(received) > _MAX_REPLY_BYTES:
                    raise ProviderReplyError(f"{self.base_url}: the reply exceeds {_MAX_REPLY_BYTES:,} bytes")
        finally:
            response.close()
        return received

    def _translated(self, error: Exception, model: str) -> ProviderError:
        if isinstance(error, openai.APIStatusError):
            return self._status_error(error, model)
        return ProviderDownError(f"{self.base_url} cannot be reached: {self._clean(_root_cause(error))}", "unreachable")

    def _status_error(self, error: openai.APIStatusError, model: str) -> ProviderError:
        status = error.status_code
        said = f"HTTP {status}{self._quote(error.body)}"
        if status == 402 or not _NO_CREDIT.isdisjoint({str(error.code), str(error.type)}):
            return ProviderRefusedError(
                f"{self.base_url}: the quota is used up ({said}); add credit or change the key", "quota"
            )
        if status in {401, 403} or (status == 400 and _BAD_KEY.search(said)):
            return ProviderRefusedError(f"{self.base_url} refused the key ({said}); check {self._key_name}", "key")
        if status == 404:
            return ProviderRefusedError(
                f"{self.base_url} has no {self._section} model {model!r} ({said}); "
                f"check {self._section}.model and {self._section}.base_url",
                "model",
            )
        if status == 429:
            after = _retry_after(error)
            when = "" if after is None else f"; it asks to wait {after:.3g} s"
            return ProviderDownError(f"{self.base_url} limits the rate of calls ({said}){when}", "rate")
        if status >= 500 or status in {408, 409}:
            return ProviderDownError(f"{self.base_url} is failing ({said})")
        return ProviderRefusedError(f"{self.base_url} refused the request ({said})")

    def _quote(self, body: object) -> str:
        text = body.get("message") if isinstance(body, Mapping) else body
        if not isinstance(text, str) or not text.strip() or text.lstrip().startswith("<"):  # a proxy's HTML page
            return ""
        return f": {self._clean(text)}"

    def _clean(self, text: str) -> str:
        """One line, of bounded length, without anything that looks like a key."""
        if self._secret:
            text = text.replace(self._secret, "***")
        text = re.sub(r"\bsk-\S+", "***", " ".join(text.split()))
        return text if len(text) <= _MAX_QUOTE else text[:_MAX_QUOTE] + "…"


def _root_cause(error: BaseException) -> str:
    """The innermost message: the outer ones only say "Connection error."."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__


def _retry_after(error: Exception) -> float | None:
    """Seconds the server asks to wait, None if it does not say so as a number or as an HTTP date."""
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if seconds >= 0:
            return seconds
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _wait(error: Exception, attempt: int) -> float:
    """What the server asks for and up to a quarter of a second more, so that not all clients come back at once.

    Else 0.5 s, 1 s, 2 s … up to 8 s, shortened by up to a quarter at random.
    """
    asked = _retry_after(error)
    if asked is not None:
        return asked + random.uniform(0.0, min(0.25, asked / 4))  # noqa: S311  (jitter, not secrecy)
    backoff: float = min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S)
    return backoff * random.uniform(0.75, 1.0)  # noqa: S311
