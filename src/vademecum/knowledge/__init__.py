"""Pages of knowledge by category, their index, and the links between them."""

from vademecum.knowledge.base import Knowledge

__all__ = ["Knowledge"]
