"""From a question to hits, a straight line: recall → fuse → floor → decay → diversity → top-k."""

from vademecum.search.engine import Answer, Request, search
from vademecum.search.query_vector import QueryVector

__all__ = ["Answer", "QueryVector", "Request", "search"]
