"""`vademecum inspect`: what is indexed of a page, and what became of a query."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from vademecum.cli.grammar import command, group
from vademecum.cli.options import add_search_options, search_options
from vademecum.cli.output import note, paint, print_json, visible
from vademecum.cli.target import open_memory

if TYPE_CHECKING:
    from vademecum.diagnose import InspectedCandidate, InspectedPage, InspectedQuery

_BOLD, _DIM = "1", "2"
_STAGES = ("fused", "above_floor", "aged", "diversity", "picked", "hits")


def add(adding: Any) -> None:
    """Both commands of the group."""
    examples = ("inspect chunks MEMORY.md", 'inspect query "which broker?" --expect accounts.md:12')
    inside = group(adding, "inspect", "show what the index holds and why a search answers as it does", examples)
    summary = "show each chunk of a page: lines, heading, tokens, vectors"
    chunks = command(inside, "chunks", summary, _chunks, ("inspect chunks MEMORY.md", "inspect chunks daily --json"))
    chunks.add_argument("path", metavar="PATH", help="a path as search prints it, long_term or daily")
    chunks.add_argument("--full", action="store_true", help="print whole texts, not their first lines")
    examples = ('inspect query "which broker?"', 'inspect query "which broker?" --expect accounts.md:12 --kind memory')
    query = command(inside, "query", "show what became of every candidate of a search", _query, examples)
    add_search_options(query)
    text = "say why this page, or the chunk at this line of it, is not among the hits; exit code 1 if it is not"
    query.add_argument("--expect", metavar="PATH[:LINE]", help=text)


def _chunks(args: Namespace) -> int:
    with open_memory(args) as memory:
        memory.sync()
        page = memory.inspect_chunks(args.path)
    if args.json:
        print_json(page)
    else:
        _show_page(page, args.full)
    if page.state != "indexed":
        note(page.why)
    return 0 if page.state == "indexed" else 1


def _show_page(page: InspectedPage, full: bool) -> None:
    told = [page.scope, page.kind, page.date, " ".join(f"#{tag}" for tag in page.tags)]
    print(paint(visible(page.path), _BOLD), visible("  ".join(filter(None, told))))
    for chunk in page.chunks:
        heading = f"  {' › '.join(chunk.heading)}" if chunk.heading else ""
        print(visible(f"{chunk.start_line}-{chunk.end_line}: {chunk.tokens} tokens{heading}"))
        for lane, there in chunk.vectors.items():
            print("   " + paint(f"{'vector' if there else 'no vector yet'} of {lane}", _DIM))
        lines = chunk.text.strip("\r\n").splitlines()
        for line in lines if full else lines[:2]:
            print(f"   {visible(line)}".rstrip())


def _query(args: Namespace) -> int:
    with open_memory(args) as memory:
        found = memory.inspect_query(args.query, expect=args.expect, **search_options(args))
    if args.json:
        print_json(found)
    else:
        _show_query(found)
    for notice in found.notices:
        note(notice)
    return 1 if found.expected is not None and found.expected.hit is None else 0


def _show_query(found: InspectedQuery) -> None:
    words = ", ".join(f"{term} {count}" for term, count in found.terms.items())
    print(visible(f"of {found.chunks} chunks hold: {words or 'no words'}"))
    if found.left_out:
        print(visible(f"too common to be asked for: {', '.join(found.left_out)}"))
    for channel, state in found.channels.items():
        print(visible(f"{channel}: {state}"))
    if found.lane is not None and found.calibration is not None:
        lo, hi = found.calibration.lo, found.calibration.hi
        print(visible(f"lane {found.lane}: a cosine of {lo:.2f} is a random text's, {hi:.2f} a strong match's"))
    print(" → ".join(f"{name} {count}" for name, count in found.stages.items()))
    for candidate in found.candidates:
        _show_candidate(candidate)
    if found.expected is not None:
        _show_expected(found)


def _show_candidate(candidate: InspectedCandidate) -> None:
    place = f"{candidate.path}:{candidate.start_line}-{candidate.end_line}"
    print(paint(visible(place), _BOLD), visible(candidate.fate))
    ranks = [
        "vector –" if candidate.vector is None else f"vector {candidate.vector:.2f}{_rank(candidate.vector_rank)}",
        f"keyword {candidate.keyword:.2f}{_rank(candidate.keyword_rank)}",
        f"fused {candidate.fused:.2f} ×{candidate.weight:.2f} ×{candidate.decay:.2f} = {candidate.score:.2f}",
        "places " + "/".join(str(candidate.places.get(stage, "–")) for stage in _STAGES),
    ]
    print("   " + paint(" · ".join(ranks), _DIM))


def _rank(rank: int | None) -> str:
    return "" if rank is None else f" (place {rank})"


def _show_expected(found: InspectedQuery) -> None:
    expected = found.expected
    assert expected is not None
    place = expected.path if expected.line is None else f"{expected.path}:{expected.line}"
    if expected.hit is not None:
        print(visible(f"expected {place}: it is hit {expected.hit}"))
    for reason in expected.reasons:
        print(visible(f"expected {place}, which is not among the hits: {reason}"))
