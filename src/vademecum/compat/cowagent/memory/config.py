"""`MemoryConfig`, and which one is meant where none is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vademecum.compat.cowagent.host import host


def _workspace() -> str:
    return str(host().folder(host().workspace()))


@dataclass
class MemoryConfig:
    """Where a workspace is and how it is cut and searched.

    ``workspace_root`` is by default that of the agent which is being served. ``embedding_*`` describe what the host
    means to use; what is used is the provider that `MemoryManager` is given. ``sources`` without "memory" finds
    nothing; conversations are never searched for a chat, because they are another chat's. A search looks at the disk
    first if both ``enable_auto_sync`` and ``sync_on_search`` are true.
    """

    workspace_root: str = field(default_factory=_workspace)
    embedding_provider: str = "openai"
    embedding_model: str = "text-embedding-3-small"
    embedding_dim: int = 1536
    chunk_max_tokens: int = 500
    chunk_overlap_tokens: int = 50
    max_results: int = 10
    min_score: float = 0.1
    vector_weight: float = 0.7
    keyword_weight: float = 0.3
    sources: Sequence[str] = field(default_factory=lambda: ["memory", "session"])
    enable_auto_sync: bool = True
    sync_on_search: bool = True

    def get_workspace(self) -> Path:
        """The folder of the workspace."""
        return Path(host().expand_path(os.fspath(self.workspace_root)))

    def get_memory_dir(self) -> Path:
        """Where daily pages are."""
        return self.get_workspace() / "memory"

    def get_db_path(self) -> Path:
        """Where CowAgent keeps its index.db; its folder is made. Our own index is in ``.vademecum``."""
        folder = self.get_memory_dir() / "long-term"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "index.db"

    def get_skills_dir(self) -> Path:
        """Where the host keeps skills."""
        return self.get_workspace() / "skills"


_registered: dict[str, MemoryConfig] = {}
_pinned: list[MemoryConfig] = []


def register_memory_config(config: MemoryConfig) -> None:
    """Make ``config`` the one for its workspace, whichever way the path to that is written."""
    _registered[os.path.realpath(config.get_workspace())] = config


def set_global_memory_config(config: MemoryConfig | None) -> None:
    """Make ``config`` the one for everybody, until None is given."""
    _pinned[:] = [] if config is None else [config]


def get_default_memory_config() -> MemoryConfig:
    """The pinned one, else that which was registered for the workspace being served, else a new one for it."""
    if _pinned:
        return _pinned[0]
    made = MemoryConfig()
    return _registered.setdefault(os.path.realpath(made.get_workspace()), made)


def reset_memory_configs() -> None:
    """Forget all of them."""
    _registered.clear()
    _pinned.clear()
