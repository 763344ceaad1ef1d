"""How vademecum talks to SQLite: connections, transactions, migrations, a pool of readers."""

from vademecum.sqlite.connection import connect, damaged, exclusive, quarantine, snapshot, translated
from vademecum.sqlite.migration import migrate
from vademecum.sqlite.pool import ReaderPool

__all__ = ["ReaderPool", "connect", "damaged", "exclusive", "migrate", "quarantine", "snapshot", "translated"]
