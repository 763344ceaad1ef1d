"""Graphs on disk: hnswlib's own file and a card beside it that says what is in it. All of it may be deleted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from vademecum.sqlite import connect, translated
from vademecum.vectors.graph_trial import EFS
from vademecum.vectors.hnsw import Graph, sound

_NUMBER = re.compile(r"lane(\d+)\.")


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """What is known of a saved graph.

    ``uid`` is the vectors file's, ``library`` the release of hnswlib, ``highest`` the greatest text id, ``ef`` how
    many rows the search must keep in view to find ten, ``recall`` the share of the exact ten that it then found among
    ``measured`` rows. ``digest`` is the graph file's SHA-256; None says that the recall was too low and nothing saved.
    """

    uid: str
    lane: int
    dims: int
    library: str
    rows: int
    highest: int
    ef: int
    recall: float
    measured: int
    digest: str | None


class GraphFiles:
    """The folder of an index's graphs, one file per lane."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Whether it is this process's turn to build, load or save; it ends with the context or with the process.

        Raises OSError or IndexUnavailableError when the folder cannot be used.
        """
        self.folder.mkdir(exist_ok=True)
        with translated(self.folder / "turn.sqlite"):
            connection = connect(self.folder / "turn.sqlite")
        try:
            yield _began(connection)
        finally:
            connection.close()

    def card(self, lane_id: int) -> Card | None:
        """The lane's card; None if there is none that can be read."""
        try:
            card = Card(**json.loads(self._card(lane_id).read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        numbers = type(card.rows) is type(card.measured) is int and type(card.recall) is float
        return card if numbers and card.ef in EFS else None

    def load(self, card: Card) -> Graph | None:
        """The graph that the card tells of; None if its file is not just that."""
        file = self._file(card.lane)
        try:
            with file.open("rb") as stream:
                intact = hashlib.file_digest(stream, "sha256").hexdigest() == card.digest
            if not (intact and sound(file, card.dims, card.rows)):
                return None
            graph = Graph.load(file, card.dims, card.rows * 9 // 8)
        except (OSError, RuntimeError):
            return None
        return graph if len(graph.ids) == card.rows and graph.ids[0] > 0 else None

    def save(self, card: Card, graph: Graph) -> Card:
        """Put graph and card in the place of the lane's old ones; returns the card with its digest. Raises OSError.

        A crash between the two leaves a card that does not fit its file, and then the graph is built again.
        """
        file = self._file(card.lane)
        new = file.with_name(file.name + ".new")
        graph.save(new)
        with new.open("rb") as stream:
            card = dataclasses.replace(card, digest=hashlib.file_digest(stream, "sha256").hexdigest())
        new.replace(file)
        self._write(card)
        return card

    def refuse(self, card: Card) -> None:
        """Save a card alone. Raises OSError."""
        self._write(card)
        self._file(card.lane).unlink(missing_ok=True)

    def discard(self, lanes: Collection[int], dry_run: bool) -> tuple[str, ...]:
        """Delete whatever belongs to other lanes than these; returns the names, from the folder's own on."""
        names = []
        for file in sorted(self.folder.glob("lane*")):
            number = _NUMBER.match(file.name)
            if number is not None and int(number[1]) not in lanes:
                names.append(f"{self.folder.name}/{file.name}")
                if not dry_run:
                    file.unlink(missing_ok=True)
        return tuple(names)

    def _write(self, card: Card) -> None:
        file = self._card(card.lane)
        new = file.with_name(file.name + ".new")
        new.write_text(json.dumps(dataclasses.asdict(card), indent=1) + "\n", encoding="utf-8")
        new.replace(file)

    def _file(self, lane_id: int) -> Path:
        return self.folder / f"lane{lane_id:d}.hnsw"

    def _card(self, lane_id: int) -> Path:
        return self.folder / f"lane{lane_id:d}.json"


def _began(connection: sqlite3.Connection) -> bool:
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        return False
    return True
