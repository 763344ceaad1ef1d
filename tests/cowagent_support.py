"""A CowAgent workspace, and what its host gives."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vademecum.compat.cowagent as shim
from embedders import hashed_row


class HostProvider:
    """An embedding provider as a host writes one: no class of ours, plain lists."""

    model = "hashed"
    dimensions = 64

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failure: Exception | None = None

    def embed(self, text: str) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_query(self, text: str) -> list[float]:
        return self.embed(text)

    def embed_batch(self, texts: list[str]) -> list[list[float]]:
        if self.failure is not None:
            raise self.failure
        self.asked += texts
        return [[float(value) for value in hashed_row(text, self.dimensions)] for text in texts]


@pytest.fixture(name="conf", autouse=True)
def install_shim(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The shim with a host whose config.json is the dictionary that this gives, and whose workspace is ``tmp/cow``."""
    conf: dict[str, Any] = {}
    shim.install(
        shim.Host(
            logger=logging.getLogger("cowagent"),
            conf=conf.get,
            workspace=lambda: tmp_path / "cow",
            custom_provider=lambda name: conf.get("custom", {}).get(name),
        )
    )
    yield conf
    from vademecum.compat.cowagent.memory.config import reset_memory_configs

    reset_memory_configs()
    shim.uninstall()


def digests(root: Path) -> dict[str, str]:
    """What every file below ``root`` holds, but for our own folder."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(root.rglob("*"))
        if file.is_file() and ".vademecum" not in file.parts
    }
