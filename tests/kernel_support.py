"""What the tests of the kernels share: each twin, each instruction set, and numbers to feed them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest
from hypothesis import strategies as st

from vademecum.kernels import codes_reference, reference

try:
    from vademecum._native import cosine, similarity
except ImportError:
    if os.environ.get("VADEMECUM_KERNELS") == "native":
        raise
    cosine = similarity = None

needs_native = pytest.mark.skipif(cosine is None, reason="the native core is not built")
_SETS = cosine.available_instruction_sets() if cosine else ["native"]
SCORERS = [*(pytest.param(name, marks=needs_native) for name in _SETS), "reference"]

seeds = st.integers(0, 2**32 - 1)
shifts = st.integers(0, 7)


@contextmanager
def scorer_named(name: str) -> Iterator[ModuleType]:
    """The native scores and codes on that instruction set, or the plain ones."""
    if name == "reference":
        plain = ModuleType(name)
        vars(plain).update(vars(reference) | vars(codes_reference))
        yield plain
        return
    best = cosine.instruction_set()
    cosine.use_instruction_set(name)
    yield cosine
    cosine.use_instruction_set(best)


def at_offset(array: np.ndarray, offset: int) -> np.ndarray:
    """The same floats, ``offset`` bytes off an aligned address."""
    return np.frombuffer(bytes(offset) + array.tobytes(), np.float32, offset=offset).reshape(array.shape)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def scattered(rows: np.ndarray, seed: int) -> tuple[bytes, np.ndarray]:
    """A buffer with the rows' bytes in any order and with gaps of any length, and where each begins."""
    draw = np.random.default_rng(seed)
    buffer, offsets = bytearray(), np.empty(len(rows), np.int64)
    for i in draw.permutation(len(rows)).tolist():
        buffer += draw.bytes(draw.integers(0, 9))
        offsets[i] = len(buffer)
        buffer += rows[i].tobytes()
    return bytes(buffer), offsets


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "VADEMECUM_KERNELS"}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=False
    )
