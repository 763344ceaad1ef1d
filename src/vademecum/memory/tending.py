"""The part of `Memory` that looks after it: what is stored too much, what is wrong, and why an answer is as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vademecum.errors import IndexUnavailableError, StoreError, UsageError
from vademecum.memory import arguments
from vademecum.memory.asking import asked
from vademecum.memory.core import Core
from vademecum.memory.reading import Reading
from vademecum.memory.upkeep import KEEP_DAYS, collect
from vademecum.settings import Settings
from vademecum.types import ChunkRow, Collected, Finding, Viewer

if TYPE_CHECKING:
    from vademecum.diagnose import InspectedPage, InspectedQuery
    from vademecum.types import Vector

_PLACE = re.compile(r"(?P<path>.+?)(:(?P<line>\d{1,9}))?", re.DOTALL)


class Tending:
    """What `Memory` can do for itself."""

    settings: Settings
    _core: Core
    _viewer: Viewer
    _reading: Reading

    def chunks(self, *, vectors: bool = False) -> Iterator[tuple[ChunkRow, Vector | None, str | None]]:
        """Every chunk that the viewer may read, by path and line, as the index has it now.

        With ``vectors`` also its vector and the name of the model that made it, in the lane that answers now; else, and
        where there is none yet, None. Raises IndexUnavailableError.
        """
        index = self._core.open_index()
        for path, source in sorted(index.fingerprints().items()):
            if source.scope not in self._viewer.scopes:
                continue
            with index.reader() as reader:
                found = sorted(reader.of_source(path), key=lambda row: (row.start_line, row.id))
                lane = next((lane for lane in reader.lanes() if lane.state == "serving"), None) if vectors else None
                known = {} if lane is None else reader.vectors_of(lane, [row.id for row in found])
            for row in found:
                yield row, known.get(row.id), None if lane is None else lane.fingerprint

    def gc(self, *, keep_days: float = KEEP_DAYS, dry_run: bool = False) -> Collected:
        """Remove what the index no longer needs, once it is ``keep_days`` days old; ``dry_run`` only tells.

        That is: vectors of embedding models that have neither been in use nor begun since; vectors, made before that,
        of texts that stand nowhere any more; graphs without vectors; and databases set aside as damaged. The vectors of
        the model in use, and those that answer now, always stay. All of it can be had again from Markdown, at the
        price of embedding. The vectors' file shrinks when a quarter of it is empty. Others may search and write
        meanwhile. Raises StoreError, and removes nothing, while files cannot be read.
        """
        return collect(self._core, keep_days, arguments.flag("dry_run", dry_run))

    def doctor(self, *, fix: bool = False) -> tuple[Finding, ...]:
        """Look at everything that can be wrong, and mend what can be mended if ``fix``.

        That is: folder and permissions, what writes left behind, journal and history, clock and zone, native code, the
        provider, and all tables of the index, which takes a while. Mending deletes no text of a page; what of the index
        is damaged beyond repair is set aside and built anew. Raises nothing: what cannot be looked at is a finding.
        """
        from vademecum.diagnose import Patient, examine

        core = self._core
        arguments.flag("fix", fix)
        try:
            state = core.state_folder()
        except (IndexUnavailableError, StoreError) as error:
            return (Finding("folder", "wrong", str(core.root), str(error), "do what the message says"),)
        patient = Patient(
            layout=core.layout,
            places=core.places,
            zone=core.settings.timezone,
            today=core.today(),
            state=state,
            # Itself, and not behind the guard that leaves it alone after an outage.
            embedder=None if core.embedding.embedder is None else core.embedding.embedder.embedder,
            reason=core.embedding.used_reason,
            index=core.open_index,
            plan=lambda: core.open_syncer().plan(),
            sync=core.read_files,
            mend=core.mend,
            history=core.history,
            notices=core.notices,
        )
        found = examine(patient, fix)
        return tuple(finding for path, finding in found if self._reading.may_read(path))

    def inspect_chunks(self, path: str) -> InspectedPage:
        """What the index holds of the page at ``path``, which may be "long_term" or "daily": each chunk with its lines,
        heading, tokens and vectors, and whether that is how the page stands on disk now.

        Raises PathError for what is no page of the viewer's, and IndexUnavailableError.
        """
        from vademecum.diagnose import inspect_page

        core = self._core
        return inspect_page(core.open_index(), core.places, core.open_syncer().scan, self._reading.page(path))

    def inspect_query(self, query: str, *, expect: str | None = None, **options: Any) -> InspectedQuery:
        """Search as `Memory.search` does, with the same ``options`` but for ``wait_ms``: it waits for the index.

        Tells of every candidate which stages it passed and where it ended. ``expect`` names what should have been
        found, as PATH or PATH:LINE; the answer says why it was not. Raises UsageError, PathError for an ``expect`` that
        is not the viewer's, StoreError when the folder cannot be read, and IndexUnavailableError.
        """
        from vademecum.diagnose import Target, inspect_query

        target = None
        if expect is not None:
            match = _PLACE.fullmatch(arguments.text("expect", expect))
            if match is None:
                raise UsageError(f"expect = {expect!r}: expected PATH or PATH:LINE")
            line = None if match["line"] is None else arguments.positive("expect", int(match["line"]))
            target = Target(self._reading.page(match["path"]), line)
        request = asked(self._core, self._viewer, self.settings, query, **options)
        if not query.strip():
            raise UsageError("query is empty: there is nothing to look into")
        index = self._core.open_index()
        refreshed = self._core.refresh(None)
        notices = self._reading.visible(refreshed.notices)
        scan = self._core.open_syncer().scan
        vectors = self._core.embedding.query_vector
        return inspect_query(index, vectors, request, self._core.places, scan, target, notices)
