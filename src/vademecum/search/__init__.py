"""From a question to hits, a straight line: recall → fuse → floor → decay → diversity → top-k."""

from vademecum.search.engine import Answer, Funnel, Request, search, sift
from vademecum.search.query_vector import QueryVector

__all__ = ["Answer", "Funnel", "QueryVector", "Request", "search", "sift"]
