"""What cosines mean in one store: measured from pairs of its own vectors, once there are enough of them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from vademecum.types import Calibration, Lane
from vademecum.vectors import scan

if TYPE_CHECKING:
    from vademecum.types import Matrix

#: Fewer vectors tell less than the embedder's prior; a lane is measured again when it has this many times as many.
LEAST, AGAIN = 256, 2
#: Texts in the sample: 130,000 pairs of them put the median of their cosines right to ± .005.
SAMPLE = 512
#: Texts with which each query is compared, at most and at least.
STRANGERS, FEWEST = 128, 32
#: A strong match stands this far from a random pair on the way to identity: .59 to .68 where three models were judged
#: on questions with known answers. The spread of a store's own pairs tells how alike its texts are, not this.
STRONG, LEAST_SPAN = 0.6, 0.01


def measured(connection: sqlite3.Connection, lane: Lane, live: str) -> tuple[Calibration, int] | None:
    """The lane's calibration and of how many vectors it was taken; None when it is not time for one.

    ``live`` is a SELECT of the ids of texts that chunks use, as text_id. The sample is the texts of least hash, which
    is as good as random and does not depend on the order in which they came.
    """
    least = max(LEAST, AGAIN * lane.measured)
    (chunks,) = connection.execute(f"SELECT count(*) FROM ({live})").fetchone()  # noqa: S608
    if chunks < least:  # asked after every batch of new texts, and texts are no more than chunks
        return None
    ids = connection.execute(
        "SELECT t.id FROM vectors.texts t WHERE t.id IN"  # noqa: S608
        f" (SELECT text_id FROM ({live})) AND t.id IN (SELECT id FROM vectors.c{lane.id:d}) ORDER BY t.hash"
    ).fetchall()
    if len(ids) < least:
        return None
    chosen = [text_id for (text_id,) in ids[:SAMPLE]]
    rows = connection.execute(
        f"SELECT id, vec FROM vectors.v{lane.id:d} WHERE id IN ({', '.join('?' * len(chosen))})",  # noqa: S608
        chosen,
    ).fetchall()
    return of_pairs(scan.as_matrix(rows, lane.dims)[1]), len(ids)


def of_pairs(vectors: Matrix) -> Calibration:
    """``lo`` is the median cosine of all pairs of these unit vectors, shape (n, dims), n > 1; ``hi`` follows from it.

    The median, because chunks that share their overlap, and other near copies, must not count.
    """
    import numpy as np

    lo = float(np.median((vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]))
    return Calibration(lo, lo + max(STRONG * (1 - lo), LEAST_SPAN))


def strangers(connection: sqlite3.Connection, lane: Lane) -> list[int]:
    """Ids of texts that have a vector in the lane, as good as random: whatever is asked, most are about other things.

    None of them where there are too few.
    """
    found = connection.execute(
        f"SELECT t.id FROM vectors.texts t WHERE EXISTS (SELECT 1 FROM vectors.c{lane.id:d} c WHERE c.id = t.id)"  # noqa: S608
        " ORDER BY t.hash LIMIT ?",
        (STRANGERS,),
    ).fetchall()
    return sorted(text_id for (text_id,) in found) if len(found) >= FEWEST else []
