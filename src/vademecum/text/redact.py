"""Secrets in a text: keys, tokens, passwords and card numbers, found by how they are written.

The prefixes are those that the issuers publish, so that leaked keys can be found; a number is taken for a card's only
if its network, its length and its check digit (ISO/IEC 7812-1) agree.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from vademecum.settings import RedactMode, RedactSettings
from vademecum.text.markdown import split_lines
from vademecum.text.merge import equal_ends
from vademecum.types import Origin

#: What stands in the place of a secret.
MARK = "[redacted: {}]"

_PREFIXED = (
    r"sk-(?:ant-|proj-|svcacct-|or-)?[\w-]{20,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek and others
    r"(?:gsk|hf|r8|npm|dop_v1|shpat|tvly|pplx|xai|nvapi|fw|lin_api|figd|PMAK|ntn|secret)[_-][A-Za-z0-9_-]{28,}",
    r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255}|gl(?:pat|dt|rt|cbt)-[\w-]{20,}",
    r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}|LTAI[A-Za-z0-9]{12,30}|AKID[A-Za-z0-9]{13,40}",  # AWS, Aliyun, Tencent
    r"AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{28}",  # Google
    r"xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{20,}|\d{8,10}:AA[\w-]{33}",  # Slack, Telegram
    r"(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|pypi-[\w-]{50,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
)
# The names of values that are secret. A letter before them makes another word of them ("lifetime token" is none).
_KEY_NAMES = r"(?:api|access|auth|private|service|account|bot|refresh|client)[ _-]?(?:key|token|secret)|secret|token"
_PASSWORD_NAMES = r"passw(?:or)?d|passphrase|pwd|密码|口令|密钥"  # noqa: S105
_BEGIN = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_VALUE = r"""[ \t]*["'`]?[ \t]*(?:=>|:=|=|:|：)[ \t"'`*]*"""
# ASCII without quotes. A password has more than letters and the marks that end a sentence.
_WORD, _NOT_ONLY_LETTERS = r"[!#-&(-_a-~]", r"[\d@#$%^&*_+=~<>|\\/-]"
_PATTERNS = {
    # Whole, or the lines of one that was cut off.
    "private key": rf"{_BEGIN}(?:(?!-----)(?s:.)){{0,20000}}-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    rf"|{_BEGIN}(?:(?:\r?\n|\\[nr])[ \t]*(?:[A-Za-z0-9+/=]{{4,}}|[\w-]+: [^\n]*))*+",
    "api key": rf"(?<![\w-])(?:{'|'.join(_PREFIXED)})",
    "token": r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}|(?i:\bbearer[ \t]+)([\w.~+/-]{20,}=*)"
    r"|(?i:\bauthorization[ \t]*:[ \t]*basic[ \t]+)([A-Za-z0-9+/]{8,}=*)",
    "password": r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,80}:([^\s/@]{3,80})@"
    rf"|(?i:(?<![A-Za-z])(?:{_PASSWORD_NAMES}){_VALUE})((?={_WORD}{{0,80}}{_NOT_ONLY_LETTERS}){_WORD}{{6,80}})",
    "secret": rf"(?i:(?<![A-Za-z])(?:{_KEY_NAMES}){_VALUE})"
    r"((?=[\w.~+/-]{0,200}\d)(?=[\w.~+/-]{0,200}[A-Za-z])[\w.~+/-]{16,200}=*)",
    "card number": r"(?<![\w.,/-])[2-6](?:[ -]?\d){11,18}(?![\w/-]|[.,]\d)",
}
_NETWORKS = re.compile(
    r"4\d{12}(?:\d{3})?(?:\d{3})?"
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12,15}|62\d{14,17}"
)


class Secret(NamedTuple):
    """``text[start:end]`` is a secret of this kind; ``line`` counts from 1."""

    kind: str
    start: int
    end: int
    line: int


class Redactor:
    """Finds secrets by the patterns in force. ``modes`` of the settings say what is done about them."""

    def __init__(self, settings: RedactSettings | None = None) -> None:
        """Without settings, the default ones."""
        self._settings = settings or RedactSettings()

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        # When they are needed: it takes milliseconds.
        patterns = [*_PATTERNS.items(), *(("secret", pattern) for pattern in self._settings.patterns)]
        return [(kind, re.compile(pattern)) for kind, pattern in patterns if kind not in self._settings.ignore]

    def mode(self, by: Origin) -> RedactMode:
        """ "redact", "warn" or "off": what becomes of secrets in what is written on that behalf."""
        return self._settings.persons if by in ("person", "import") else self._settings.models

    def find(self, text: str) -> list[Secret]:
        """The secrets in order; none overlaps another."""
        found = sorted({span for kind, pattern in self._patterns for span in _spans(kind, pattern, text)}, key=_order)
        starts = list(accumulate(map(len, split_lines(text)), initial=0)) if found else []
        secrets: list[Secret] = []
        for start, end, kind in found:
            if secrets and start < secrets[-1].end:
                secrets[-1] = secrets[-1]._replace(end=max(end, secrets[-1].end))
            else:
                secrets.append(Secret(kind, start, end, bisect_right(starts, start)))
        return secrets

    def find_new(self, before: str, after: str) -> list[Secret]:
        """The secrets of ``after`` that stand on a line which ``before`` does not have."""
        old, new = split_lines(before), split_lines(after)
        head, tail = equal_ends(old, new)
        offset = sum(map(len, new[:head]))
        known = {line.strip() for line in old}
        found = self.find("".join(new[head : len(new) - tail]))
        return [
            Secret(secret.kind, secret.start + offset, secret.end + offset, secret.line + head)
            for secret in found
            if new[secret.line - 1 + head].strip() not in known
        ]

    def cleaned(self, text: str, by: Origin) -> str:
        """``text`` as it may be written on that behalf, or shown to a model that will."""
        return self.redact(text) if self.mode(by) == "redact" else text

    def redact(self, text: str) -> str:
        """``text`` with a mark in the place of each secret. What is redacted once stays as it is."""
        return blacked_out(text, self.find(text))


def blacked_out(text: str, secrets: Sequence[Secret]) -> str:
    """``text`` with a mark in the place of each of the ``secrets``, which are in order."""
    for secret in reversed(secrets):
        text = text[: secret.start] + MARK.format(secret.kind) + text[secret.end :]
    return text


def _order(span: tuple[int, int, str]) -> tuple[int, int]:
    return span[0], -span[1]


def _spans(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    """Of each match the first group that took part, else all of it."""
    for match in pattern.finditer(text):
        start, end = match.span(match.lastindex or 0)
        if start == end or text.startswith(MARK.partition("{")[0], start):
            continue
        if kind != "card number" or _is_card(re.sub(r"\D", "", match[0])):
            yield start, end, kind


def _is_card(digits: str) -> bool:
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return bool(_NETWORKS.fullmatch(digits)) and (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0
