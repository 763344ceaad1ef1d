"""Conversations: what was said, in a file of its own, for the model, for display and for whoever learns from it."""

from vademecum.history.conversations import Conversations
from vademecum.history.database import HISTORY_FILE, HistoryFile
from vademecum.history.records import (
    Latest,
    Message,
    Restored,
    Session,
    SessionPage,
    Step,
    Totals,
    Turn,
    TurnPage,
    owner_of,
    scope_of,
    viewer_of,
)
from vademecum.history.salvage import Salvaged, salvage

__all__ = [
    "HISTORY_FILE",
    "Conversations",
    "HistoryFile",
    "Latest",
    "Message",
    "Restored",
    "Salvaged",
    "Session",
    "SessionPage",
    "Step",
    "Totals",
    "Turn",
    "TurnPage",
    "owner_of",
    "salvage",
    "scope_of",
    "viewer_of",
]
