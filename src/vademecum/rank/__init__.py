"""Ranking as pure steps over candidates: fuse → floor → weigh → decay → diversity. No file or table is read."""

from vademecum.rank.candidate import Candidate, Ranked
from vademecum.rank.decay import decay, newer_first
from vademecum.rank.diversity import diversify
from vademecum.rank.fusion import Query, fuse
from vademecum.rank.kinds import seat, weigh
from vademecum.rank.threshold import above_floor

__all__ = ["Candidate", "Query", "Ranked", "above_floor", "decay", "diversify", "fuse", "newer_first", "seat", "weigh"]
