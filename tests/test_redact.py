"""Keys, tokens, passwords and card numbers reach no memory by way of a model; what only looks like one stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import SettingsError
from vademecum.settings import RedactSettings
from vademecum.store.files import Document, append, replace, rewrite
from vademecum.store.paths import resolve
from vademecum.text.redact import Redactor
from vademecum.types import ORIGINS

# Put together here, so that no scanner takes this file for a leak.
A36 = "a1B2c3D4e5F6" * 3
BEGIN = "-----BEGIN RSA PRIVATE" + " KEY-----"
SECRETS = [
    ("api key", "sk-" + "proj-" + A36),
    ("api key", "sk-" + "ant-api03-" + A36),
    ("api key", "gh" + "p_" + A36),
    ("api key", "github" + "_pat_" + A36),
    ("api key", "AK" + "IAIOSFODNN7EXAMPLE"),
    ("api key", "AI" + "za" + A36[:35]),
    ("api key", "xox" + "b-123456789012-abcdefABCDEF"),
    ("api key", "hf" + "_" + A36),
    ("token", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2QT4"),
    ("card number", "4111 1111 1111 1111"),
    ("card number", "5500-0000-0000-0004"),
    ("card number", "378282246310005"),
    ("card number", "6222020000000000000"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
@pytest.mark.parametrize("around", ["- the key is {} for now.", "（{}）", "\n`{}`\n", "KEY={}"])
def test_secrets_are_found_by_how_they_are_written(kind: str, secret: str, around: str) -> None:
    text = around.format(secret)
    (found,) = Redactor().find(text)
    assert (found.kind in (kind, "secret"), text[found.start : found.end]) == (True, secret)
    assert secret not in Redactor().redact(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: hunter2!x", "hunter2!x"),
        ("**Password:** `hunter2!x`", "hunter2!x"),
        ("密码：abc12345", "abc12345"),
        ('{"api_key": "0123456789abcdef0123"}', "0123456789abcdef0123"),
        ("OPENAI_API_KEY=abcdef0123456789abcd", "abcdef0123456789abcd"),
        ("Authorization: Bearer abcdefghij0123456789", "abcdefghij0123456789"),
        ("postgres://me:s3cret@db.example.com/x", "s3cret"),
    ],
)
def test_of_what_is_named_a_secret_the_value_goes_and_the_name_stays(text: str, secret: str) -> None:
    redacted = Redactor().redact(text)
    assert secret not in redacted
    kind = redacted[redacted.index("[redacted: ") :].partition("]")[0].removeprefix("[redacted: ")
    assert redacted == text.replace(secret, f"[redacted: {kind}]")


def test_a_private_key_goes_whole_also_escaped_or_cut_off() -> None:
    begin, end = BEGIN, BEGIN.replace("BEGIN", "END")
    for key in (f"{begin}\nMIIEabc+/=\nDEFg\n{end}", f"{begin}\\nMIIEabc\\nDEFg\\n{end}", f"{begin}\nMIIEabc\n"):
        redacted = Redactor().redact(f"before\n{key}\n\nafter, all words.")
        assert "MIIE" not in redacted
        assert redacted.startswith("before\n[redacted: private key]")
        assert redacted.endswith("after, all words.")


@pytest.mark.parametrize(
    "text",
    [
        "Order 4111 1111 1111 1112 and 1234567890123456",  # no check digit, no network
        "The token budget is 2000 per call; token: none",
        "Password: required. The password is stored in a safe.",
        "密码：请联系管理员重置",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "id 550e8400-e29b-41d4-a716-446655440000, at 1736600000000, ISBN 978-3-16-148410-0",
        "risk-adjusted-returns-of-the-portfolio, ask-questions-before-answering-anything",
        "secret: the cake is a lie; https://example.com:8443/path, mailto:a@b.c",
        "price 1,234,567,890,123.45 and 3.14159265358979323846",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert Redactor().find(text) == []


_PIECES = st.sampled_from(
    [secret for _, secret in SECRETS] + ["password: ", "key = ", "\n", " ", "words", "-", "token:"]
)


@given(st.lists(_PIECES, max_size=8).map(" ".join))
def test_what_is_redacted_once_stays_as_it_is(text: str) -> None:
    once = Redactor().redact(text)
    assert Redactor().redact(once) == once


@pytest.mark.parametrize(
    "text", ["4" * 200_000, "password:" * 20_000, "eyJ" + "a" * 200_000, "api key=" + "a." * 99_999, BEGIN * 7_000]
)
def test_no_text_takes_more_than_a_moment(text: str) -> None:
    """Each would take minutes if a pattern looked at every part of it from every start."""
    Redactor().find(text)


# every write, whoever makes it

KEY = SECRETS[2][1]


@pytest.mark.parametrize("by", ORIGINS)
def test_a_model_writes_no_secret_and_a_person_is_told(tmp_path: Path, by: str) -> None:
    done = append(tmp_path, resolve(tmp_path, "x.md"), f"- ok\n- key {KEY}", by=by)  # type: ignore[arg-type]
    assert [(secret.kind, secret.line) for secret in done.secrets] == [("api key", 2)]
    kept = KEY in (tmp_path / "x.md").read_text()
    assert kept == (by in ("person", "import"))
    assert ("- key [redacted: api key]\n" in (tmp_path / "x.md").read_text()) != kept


def test_a_model_that_rewrites_a_page_does_not_black_out_what_a_person_wrote_there(tmp_path: Path) -> None:
    page = resolve(tmp_path, "x.md")
    append(tmp_path, page, f"# Keys\n\n- mine {KEY}\n- old")
    done = replace(tmp_path, page, Document(f"# Keys\n\n- new\n- mine {KEY}\n- copy {KEY}\n"), by="dream")
    assert page.file.read_text() == f"# Keys\n\n- new\n- mine {KEY}\n- copy [redacted: api key]\n"
    assert [secret.line for secret in done.secrets] == [5]


def test_the_rules_are_settings(tmp_path: Path) -> None:
    page = resolve(tmp_path, "x.md")
    strict = Redactor(RedactSettings(persons="redact", models="off", patterns=(r"Project (\w+)",), ignore=("api key",)))
    append(tmp_path, page, f"{KEY}, Project Falcon, 4111111111111111", redactor=strict)
    append(tmp_path, page, "Project Eagle", by="flush", redactor=strict)
    assert page.file.read_text() == f"{KEY}, Project [redacted: secret], [redacted: card number]\nProject Eagle\n"
    for wrong in ({"persons": "maybe"}, {"patterns": ("(",)}, {"patterns": "x"}, {"ignore": ("passport",)}):
        with pytest.raises(SettingsError, match=f"redact.{next(iter(wrong))}"):
            RedactSettings(**wrong)  # type: ignore[arg-type]


def test_an_undo_brings_back_what_was_there(tmp_path: Path) -> None:
    from vademecum.store.undo import undo

    page = resolve(tmp_path, "x.md")
    append(tmp_path, page, f"- {KEY}")
    entry = rewrite(tmp_path, page, lambda _: Document("empty\n"), by="agent").entry
    undo(tmp_path, lambda _: True, entry, "agent")
    assert page.file.read_text() == f"- {KEY}\n"
