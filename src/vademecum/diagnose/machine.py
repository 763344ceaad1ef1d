"""Checks of what a memory stands on: native code, clock and zone, the provider of vectors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date

from vademecum.errors import ProviderDownError, ProviderError
from vademecum.ports import Embedder
from vademecum.types import Finding

#: A provider that has said nothing by then counts as down, whatever its own limits are.
_PATIENCE_S = 15.0


def check_kernels() -> Iterator[Finding]:
    """The chosen kernels against their plain twins, on made-up data."""
    from vademecum import kernels

    where = f"{kernels.NAME} ({kernels.instruction_set()})"
    if kernels.NAME == "reference":
        yield Finding("kernels", "ok", where, "the plain twins serve: slower, with equal results")
        return
    wrong = sorted(set(_differing()))
    if wrong:
        fix = "set VADEMECUM_KERNELS=reference, and report it with this machine's processor"
        yield Finding("kernels", "wrong", where, f"other results than the plain twin's from {', '.join(wrong)}", fix)
    else:
        yield Finding("kernels", "ok", where, "the results are those of the plain twins")


def _differing() -> Iterator[str]:
    import numpy as np

    from vademecum import kernels
    from vademecum.kernels import codes_reference, reference

    random = np.random.default_rng(1)
    for dims in (3, 48, 384):
        rows = random.standard_normal((70, dims)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        query = np.ascontiguousarray(rows[7])
        if not np.allclose(kernels.scores(rows, query), reference.scores(rows, query), atol=1e-5):
            yield "scores"
        if kernels.top_k(rows, query[None, :], 1)[0][0, 0] != 7:
            yield "top_k"
        if not np.array_equal(kernels.encode(rows), codes_reference.encode(rows)):
            yield "encode"
    texts = ["one two three", "two three four", "", "one two three four", "风险 偏好 two"]
    ours, plain = kernels.token_sets(texts), reference.token_sets(texts)
    pairs = [(i, j) for i in range(len(texts)) for j in range(i)]
    if any(abs(kernels.jaccard(ours, i, j) - reference.jaccard(plain, i, j)) > 1e-12 for i, j in pairs):
        yield "jaccard"
    relevance = [1.0, 0.9, 0.8, 0.7, 0.1]
    if kernels.mmr(relevance, ours, 0.7, 5).tolist() != reference.mmr(relevance, plain, 0.7, 5).tolist():
        yield "mmr"


def check_clock(today: date, zone: str | None, newest: tuple[str, float] | None, now: float) -> Iterator[Finding]:
    """Which day it is for the memory, and whether the clock can be right. ``newest`` is the page changed last, and
    when; times are Unix times."""
    named = f"of the setting timezone, {zone}" if zone else "of the system; the setting timezone names another one"
    yield Finding("clock", "ok", "zone", f"today is {today.isoformat()} in the zone {named}")
    if newest is not None and newest[1] > now + 86_400:
        days = (newest[1] - now) / 86_400
        what = f"was changed {days:.0f} days in the future: the clock is behind, or the file's time is wrong"
        yield Finding("clock", "wrong", newest[0], what, "set the clock, or touch the file")


def check_provider(embedder: Embedder | None, reason: str) -> Iterator[Finding]:
    """Whether the embedder embeds, within a bounded time."""
    if embedder is None:
        yield Finding("provider", "skipped", "embedding", reason)
        return
    outcome: list[Finding] = []
    thread = threading.Thread(target=lambda: outcome.append(_asked(embedder)), name="vademecum-doctor", daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    late = f"no answer within {_PATIENCE_S:g} s; keyword search answers meanwhile"
    yield outcome[0] if outcome else Finding("provider", "wrong", "embedding", late, "look after the server")


def _asked(embedder: Embedder) -> Finding:
    try:
        fingerprint = embedder.fingerprint
        rows = embedder.embed_documents(["hello"])
        if rows.shape != (1, fingerprint.dims):
            what = f"a reply of shape {rows.shape}, and not one vector of {fingerprint.dims} dimensions"
            return Finding("provider", "wrong", fingerprint.key, what, "name the model that is served")
    except ProviderDownError as error:
        if error.about == "unreachable":
            return Finding("provider", "skipped", "embedding", f"cannot be reached from here now: {error}")
        return Finding(
            "provider", "wrong", "embedding", str(error), "try again later; keyword search answers meanwhile"
        )
    except ProviderError as error:
        return Finding("provider", "wrong", "embedding", str(error), "mend the settings under embedding")
    except Exception as error:  # a host's own embedder may raise anything
        return Finding("provider", "wrong", "embedding", f"{type(error).__name__}: {error}", "mend the embedder")
    return Finding("provider", "ok", fingerprint.key, "embeds")
