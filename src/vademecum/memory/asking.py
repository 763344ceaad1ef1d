"""What a caller of a search asks for, judged and completed by the settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vademecum.errors import SettingsError, UsageError, shown
from vademecum.memory import arguments
from vademecum.memory.core import Core
from vademecum.memory.filters import conditions
from vademecum.search import Request
from vademecum.settings import FUSIONS, Fusion, Settings
from vademecum.types import Viewer


def asked(
    core: Core,
    viewer: Viewer,
    settings: Settings,
    query: str,
    *,
    max_results: int | None = None,
    min_score: float | None = None,
    fusion: Fusion | None = None,
    decay: bool | None = None,
    mmr: bool | None = None,
    **filters: Any,
) -> Request:
    """The request for `Memory.search`'s arguments; ``filters`` as for `conditions`. Raises UsageError."""
    if not isinstance(query, str):
        raise UsageError(f"query = {shown(query)}: expected a text")
    given: dict[str, Any] = {
        name: arguments.number(name, value)
        for name, value in (("max_results", max_results), ("min_score", min_score))
        if value is not None
    }
    if fusion is not None:
        given["fusion"] = arguments.choice("fusion", fusion, FUSIONS)
    try:
        chosen = replace(settings.search, **given)
    except SettingsError as error:
        raise UsageError(str(error).removeprefix("search.")) from error
    today = core.today()
    return Request(
        query,
        conditions(viewer, today, **filters),
        today,
        chosen,
        settings.decay if decay is None else replace(settings.decay, enabled=arguments.flag("decay", decay)),
        settings.mmr if mmr is None else replace(settings.mmr, enabled=arguments.flag("mmr", mmr)),
        settings.kinds,
    )
