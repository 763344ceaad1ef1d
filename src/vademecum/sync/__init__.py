"""Bringing the index up to the files: plan (a pure difference), apply, fill in vectors."""

from vademecum.sync.flight import SingleFlight
from vademecum.sync.plan import Plan, plan
from vademecum.sync.sessions import Sessions
from vademecum.sync.syncer import Syncer
from vademecum.sync.vectors import EmbedTexts, Filled, VectorFiller

__all__ = ["EmbedTexts", "Filled", "Plan", "Sessions", "SingleFlight", "Syncer", "VectorFiller", "plan"]
