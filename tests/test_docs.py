"""What the documentation says is so: its code runs, its numbers are the library's, and nothing is left out of it.

In README.md and docs/*.md, blocks marked `python` and `sh` run in order, each page in a folder of its own with nothing
but its own blocks before; a `text` block right after one is what it prints, where "..." stands for anything. Blocks
marked `console` are for readers only: they need this repository, a network or a person.
"""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from embedders import HashedEmbedder
from vademecum import Memory, config, kernels
from vademecum.compat.cowagent import uninstall
from vademecum.errors import SettingsError
from vademecum.settings import Settings

HERE = Path(__file__).resolve().parents[1]
DOCS = HERE / "docs"
#: None where the tests run without the sources around them.
PAGES = [page for page in (HERE / "README.md", *sorted(DOCS.glob("*.md"))) if page.is_file()]

_FENCE = re.compile(r"^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = {"python", "sh"}
_KNOWN = {*_RUN, "text", "console", "toml", "json", "markdown", "sql", "{toctree}"}


class Block(NamedTuple):
    line: int
    language: str
    code: str
    printed: str | None


def _blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    blocks = []
    for number, match in enumerate(found):
        following = found[number + 1] if number + 1 < len(found) else None
        follows = following is not None and following[1] == "text" and not text[match.end() : following.start()].strip()
        printed = following[2] if following is not None and follows else None
        blocks.append(Block(text.count("\n", 0, match.start()) + 1, match[1], match[2], printed))
    return blocks


def _ids(page: Path) -> str:
    return page.name


def _prepare_formats(_: Path) -> None:
    with Memory.open("notes", embedder=HashedEmbedder()) as memory:
        memory.remember("Single positions stay under 5 % of the portfolio.")
        memory.edit("MEMORY.md", "5 %", "4 %")
        memory.remember("Sold half of the bond fund.", daily=True)
        memory.history.append("chat-7", [{"role": "user", "content": "How much NVIDIA do I hold?"}])
        memory.sync()


#: What a page finds in its folder when its first block runs.
PREPARED: dict[str, Callable[[Path], None]] = {"file-formats.md": _prepare_formats}


_SHELL = """\
set -euo pipefail
vademecum() { "$PYTHON_OF_TESTS" -m vademecum "$@"; }
trap 'pwd > "$HOME/left-in"' EXIT
"""


def _run_shell(code: str) -> str:
    """What the block prints. Where it leaves off, the next one goes on."""
    left_in = Path(os.environ["HOME"], "left-in")
    folder = left_in.read_text(encoding="utf-8").strip() if left_in.exists() else None
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHON_OF_TESTS": sys.executable, "PYTHONPATH": paths}
    done = subprocess.run(
        ["bash", "-c", _SHELL + code], cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _run_python(code: str, names: dict[str, Any], where: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, where, "exec"), names)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=_ids)
def test_every_block_of_code_does_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _blocks(page)
    assert {block.language for block in blocks} <= _KNOWN, "an unknown language: is it to be run?"
    PREPARED.get(page.name, lambda _: None)(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    request.addfinalizer(uninstall)
    for block in blocks:
        if block.language not in _RUN:
            continue
        where = f"{page.name}:{block.line}"
        out = _run_shell(block.code) if block.language == "sh" else _run_python(block.code, names, where)
        if block.printed is not None:
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            told = doctest.OutputChecker().check_output(block.printed, out, options)
            assert told, f"{where} prints:\n{out}\ninstead of:\n{block.printed}"


def test_what_the_readme_links_to_is_there() -> None:
    for page in PAGES[:1]:
        for target, anchor in re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
            file = page.parent / target
            assert file.is_file(), target
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, anchor


# -- file formats -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")
def test_six_lines_read_each_format_and_get_what_the_library_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _prepare_formats(tmp_path)
    recipes = {}
    for block in _blocks(DOCS / "file-formats.md"):
        if block.language == "python":
            names: dict[str, Any] = {}
            _run_python(block.code, names, "file-formats.md")
            recipes[block.code.splitlines()[0].removeprefix("# ")] = names
            assert len(block.code.splitlines()) <= 7, "a title and six lines"
    assert set(recipes) == {"vectors", "codes", "index", "history", "journal"}
    with Memory.open("notes", embedder=HashedEmbedder()) as memory:
        vectors, codes = recipes["vectors"]["vectors"], recipes["codes"]["rows"]
        hits = memory.search("bond fund portfolio", wait_ms=-1, min_score=0.0)
        query = HashedEmbedder().embed_query("bond fund portfolio")
        assert sorted(round(float(query @ row), 5) for row in vectors.values()) == sorted(
            round(hit.trace.vector or 0.0, 5) for hit in hits
        )
        for text_id, row in vectors.items():
            code, scale, residual = codes[text_id]
            encoded = kernels.encode(np.ascontiguousarray(row, np.float32)[None])[0]
            assert encoded[: len(row)].tobytes() == code.tobytes()
            assert np.linalg.norm(row - scale * code) <= residual * (1 + 1e-6)
        assert {(path, start) for path, start, *_ in recipes["index"]["chunks"]} == {
            (hit.path, hit.start_line) for hit in hits
        }
        assert recipes["history"]["messages"] == memory.history.load("chat-7")
        assert recipes["journal"]["before"].endswith("- Single positions stay under 5 % of the portfolio.\n")
        assert "4 %" in memory.get("MEMORY.md").text


# -- references -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")
def test_every_command_and_option_is_in_the_reference() -> None:
    written = (DOCS / "commands.md").read_text(encoding="utf-8")
    made = subprocess.run(
        [sys.executable, DOCS / "commands.py"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert made.stdout == written, "run: python docs/commands.py > docs/commands.md"


def _documented_settings() -> Iterator[tuple[str, str, str]]:
    row = re.compile(r"^\| `([\w.]+)` \| (.*?) \| (.*?) \|", re.MULTILINE)
    for match in row.finditer((DOCS / "settings.md").read_text(encoding="utf-8")):
        yield match[1], match[2], match[3]


def _default(key: str) -> object:
    value: Any = Settings()
    for name in key.split("."):
        fields = {field.name.rstrip("_"): field.name for field in dataclasses.fields(value)}
        value = getattr(value, fields[name])
    return value


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")
def test_every_setting_is_documented_with_its_default() -> None:
    documented = list(_documented_settings())
    assert sorted(key for key, *_ in documented) == sorted(config.keys())
    for key, default, _ in documented:
        value = _default(key)
        told = {"None": "–", "()": "empty", "True": "true", "False": "false"}.get(str(value), str(value))
        assert default == (f"{value:g}" if isinstance(value, float) else told), key


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")
def test_the_documented_ranges_are_those_that_are_enforced() -> None:
    checked = 0
    for key, _, values in _documented_settings():
        match = re.fullmatch(r"([\d.,]+) to ([\d.,]+)", values)
        if match is None:
            continue
        checked += 1
        low, high = (float(bound.replace(",", "")) for bound in match.groups())
        for value, wrong in ((low, False), (high, False), (low - 1, True), (high * 2 + 1, True)):
            given = int(value) if value == int(value) else value
            overrides: dict[str, object] = {}
            inner = overrides
            *groups, name = key.split(".")
            for group in groups:
                inner[group] = inner = {}  # type: ignore[assignment]
            inner[name] = given
            if key == "chunk.overlap_tokens":
                inner["tokens"] = 100_000
            if key == "chunk.tokens":
                inner["overlap_tokens"] = 0
            try:
                config.load_settings(None, {}, overrides)
            except SettingsError as error:
                assert wrong, error
            else:
                assert not wrong, f"{key} = {given} is taken"
    assert checked > 30
