"""Looking at a memory and at the library itself: what is wrong, what became of a query, how fast this machine is."""

from vademecum.diagnose.bench import Speed, measure
from vademecum.diagnose.chunks import InspectedChunk, InspectedPage, inspect_page
from vademecum.diagnose.doctor import Patient, examine
from vademecum.diagnose.query import Expected, InspectedCandidate, InspectedQuery, Target, inspect_query

__all__ = [
    "Expected",
    "InspectedCandidate",
    "InspectedChunk",
    "InspectedPage",
    "InspectedQuery",
    "Patient",
    "Speed",
    "Target",
    "examine",
    "inspect_page",
    "inspect_query",
    "measure",
]
