"""The main road, end to end, as a newcomer walks it. Also runs against the built wheel, out of reach of the sources."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import vademecum
from vademecum import Memory, Settings, kernels
from vademecum.settings import EmbeddingSettings

pytestmark = pytest.mark.smoke

HERE = Path(__file__).resolve().parents[1]
LIMIT = "Single positions stay under 5 % of the portfolio."


def _run(*arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
    command = Path(sysconfig.get_path("scripts"), "vademecum")
    return subprocess.run([command, *map(str, arguments)], input=given, capture_output=True, text=True, check=False)


def test_the_installed_package_is_the_one_under_test() -> None:
    package = Path(vademecum.__file__)
    assert package.is_relative_to(HERE / "src") or package.is_relative_to(sys.prefix)
    assert package.with_name("py.typed").is_file()


def test_the_native_kernels_come_with_the_package() -> None:
    assert kernels.NAME == "native"


def test_what_is_remembered_is_found_read_and_put_in_the_context(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "notes") as memory:
        written = memory.remember(LIMIT)
        memory.remember("Sold half of the bond fund.", daily=True)
        result = memory.search("portfolio positions")
        assert result[0].path == "MEMORY.md"
        assert LIMIT in result[0].text
        assert result.fresh
        assert memory.get(written.path, start=written.start_line, lines=1).text.strip() == f"- {LIMIT}"
        context = memory.context(max_tokens=500)
        assert context.text.index(LIMIT) < context.text.index("Sold half of the bond fund.")
        assert memory.status().index is not None


def test_the_offline_model_finds_what_shares_no_word_with_the_question(tmp_path: Path) -> None:
    settings = Settings(embedding=EmbeddingSettings(provider="local"))
    with Memory.open(tmp_path / "notes", settings=settings) as memory:
        for line in ("The dog's name is Biscuit.", LIMIT, "我们的女儿明年上大学。"):
            memory.remember(line, file=f"{len(line)}.md")
        result = memory.search("when does our daughter go to university?", wait_ms=-1)
        assert result.channels["vector"] == "ok"
        assert "女儿" in result[0].text


def test_the_command_line_works_from_init_to_search(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    assert _run("init", root).returncode == 0
    assert _run("--root", root, "remember", "-", given=LIMIT).returncode == 0
    found = _run("--root", root, "search", "portfolio", "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert [hit["path"] for hit in answer["hits"]] == ["MEMORY.md"]
    assert answer["channels"]["keyword"] == "ok"
    assert _run("--root", root, "search").returncode == 2
    assert _run("--root", root, "get", "missing.md").returncode == 1


@pytest.mark.parametrize("name", ["investor", "project"])
def test_the_examples_are_a_memory_without_a_flaw(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    for page in (HERE / "examples" / name).rglob("*.md"):
        copy = root / page.relative_to(HERE / "examples" / name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(page.read_bytes())
    with Memory.open(root) as memory:
        report = memory.sync()
        assert report.added > 15
        assert (report.failed, report.notices) == ((), ())
