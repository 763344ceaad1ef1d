"""How vademecum talks to SQLite: connections, transactions, migrations, a pool of readers."""

from vademecum.sqlite.connection import (
    Connection,
    connect,
    damaged,
    exclusive,
    quarantine,
    quarantined,
    snapshot,
    translated,
)
from vademecum.sqlite.migration import migrate
from vademecum.sqlite.pool import CLOSED, ReaderPool

__all__ = [
    "CLOSED",
    "Connection",
    "ReaderPool",
    "connect",
    "damaged",
    "exclusive",
    "migrate",
    "quarantine",
    "quarantined",
    "snapshot",
    "translated",
]
