"""Frameworks of agents, which tests of adapters need and most environments do not have."""

from __future__ import annotations

import os

import pytest


def need(package: str, extra: str) -> None:
    """Skip the module without ``package``; fail where all are meant to be there (`make adapters`)."""
    if os.environ.get("VADEMECUM_ADAPTERS") != "all":
        pytest.importorskip(package, reason=f"vademecum[{extra}] is not installed; `make adapters` runs this")
