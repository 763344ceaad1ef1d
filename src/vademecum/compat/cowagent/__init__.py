"""A drop-in for CowAgent: its memory, knowledge and memory tools, over this memory.

::

    import vademecum.compat.cowagent as shim
    shim.install()                      # before anything imports agent.memory
    from agent.memory import MemoryManager

Modules below ``memory``, ``knowledge`` and ``tools.memory`` are named as in CowAgent, because hosts import them by
these names. What behaves differently, and why, is in ``docs/compat-cowagent.md``.
"""

from vademecum.compat.cowagent.aliases import install, uninstall
from vademecum.compat.cowagent.host import Host, host_of_cowagent

__all__ = ["Host", "host_of_cowagent", "install", "uninstall"]
