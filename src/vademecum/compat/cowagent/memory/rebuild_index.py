"""``python -m vademecum.compat.cowagent.memory.rebuild_index``: build a workspace's index anew."""

from __future__ import annotations

import sys

from vademecum.compat.cowagent.host import host
from vademecum.compat.cowagent.memory.config import get_default_memory_config
from vademecum.compat.cowagent.memory.embedding import create_default_embedding_provider, rebuild_in_process
from vademecum.compat.cowagent.memory.manager import MemoryManager


def main() -> int:
    """Rebuild the index of the workspace being served; 0 if it was done, else 1 and the reason in the host's log."""
    provider = create_default_embedding_provider()
    if provider is None:
        host().logger.error("[RebuildIndex] no embedding provider is configured; see config.json")
        return 1
    manager = MemoryManager(get_default_memory_config(), provider)
    try:
        result = rebuild_in_process(manager)
    finally:
        manager.close()
    if not result.ok:
        host().logger.error(f"[RebuildIndex] {result.error}")
        return 1
    host().logger.info(f"[RebuildIndex] removed={result.removed} chunks={result.chunks} files={result.files}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
