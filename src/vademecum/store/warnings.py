"""What whoever changed a page should know of it."""

from __future__ import annotations

from vademecum.settings import ContextSettings
from vademecum.store.context import over_budget
from vademecum.store.files import Change
from vademecum.store.layout import LONG_TERM


def warnings_of(path: str, change: Change, limits: ContextSettings | None = None) -> tuple[str, ...]:
    """Secrets among the new lines, and a MEMORY.md that has become too long for a context; never a secret itself."""
    what = "was blacked out" if change.redacted else "is kept as it was written"
    warnings = [f"{path}:{secret.line}: what looks like {_a(secret.kind)} {what}" for secret in change.secrets]
    if change.entry is not None and change.after is not None and path.rpartition("/")[2] == LONG_TERM:
        excess = over_budget(change.after.text, limits or ContextSettings())
        warnings += [] if excess is None else [f"{path} {excess}"]
    return tuple(warnings)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
