"""How answers look: for a person, or as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.cli.output import note, paint, plain, print_json, print_text, visible

if TYPE_CHECKING:
    from vademecum.diagnose import Speed
    from vademecum.types import Context, Excerpt, Hit, Lane, SearchResult, Status, SyncReport, Trace, Written

_SHOWN_LINES = 6
_BOLD, _DIM = "1", "2"


def made(root: Path, *, known: bool, as_json: bool) -> None:
    """Where the memory is, and whether it was one before."""
    if as_json:
        print_json({"root": str(root), "created": not known})
    else:
        print(visible(f"{root} {'was a memory already' if known else 'is a memory now'}"))


def written(record: Written, *, as_json: bool) -> None:
    """Where a remembered text stands."""
    if as_json:
        print_json(record)
    else:
        known = " (was there already)" if record.existed else ""
        print(visible(f"{record.path}:{record.start_line}-{record.end_line}{known}"))
    for warning in record.warnings:
        note(warning)


def report(record: SyncReport, *, as_json: bool) -> None:
    """Counts of a sync."""
    if as_json:
        print_json(report_fields(record))
        return
    files = f"{record.added} added, {record.changed} changed, {record.removed} removed, {record.kept} kept"
    failures = f", {len(record.failed)} failed" if record.failed else ""
    waiting = f", {record.pending} still waiting" if record.pending else ""
    print(f"files: {files}{failures}")
    print(f"chunks: {record.chunks} written; vectors: {record.embedded} made{waiting}")


def report_fields(record: SyncReport) -> dict[str, Any]:
    """A sync's report as JSON has it."""
    failed = [{"path": path, "reason": reason} for path, reason in record.failed]
    notices = [{"path": path, "notice": notice} for path, notice in record.notices]
    return {**plain(record), "failed": failed, "notices": notices}


def found(result: SearchResult, *, as_json: bool, explain: bool, full: bool) -> None:
    """The hits of a search."""
    if as_json:
        print_json(_found(result, explain=explain))
        return
    for rank, hit in enumerate(result.hits, start=1):
        _hit(rank, hit, explain=explain, full=full)
    if not result.hits and result.disabled is None:
        print("no hits")
    if explain and result.explanation:
        print(paint(_explanation(result.explanation), _DIM))


def _found(result: SearchResult, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "query": result.query,
        "hits": [
            {
                "path": hit.path,
                "start_line": hit.start_line,
                "end_line": hit.end_line,
                "heading": " › ".join(hit.heading) or None,
                "date": hit.date,
                "score": hit.score,
                "origin": hit.origin,
                "text": hit.text,
                "trace": hit.trace,
            }
            for hit in result.hits
        ],
        "fresh": result.fresh,
        "channels": result.channels,
        "elapsed_ms": result.elapsed_ms,
    }
    if result.notices:
        answer["notices"] = result.notices
    if result.disabled is not None:
        answer["disabled"] = result.disabled
    if explain:
        answer["explanation"] = result.explanation
    return answer


def _hit(rank: int, hit: Hit, *, explain: bool, full: bool) -> None:
    place = paint(f"{hit.path}:{hit.start_line}-{hit.end_line}", _BOLD)
    written_by = "" if hit.origin == "person" else f"written by {hit.origin}"
    print(f"{rank}. " + "  ".join(filter(None, (place, hit.date, f"score {hit.score:.2f}", written_by))))
    if hit.heading:
        print("   " + paint(" › ".join(hit.heading), _DIM))
    if explain:
        print("   " + paint(_trace(hit.trace), _DIM))
    lines = hit.text.strip("\r\n").splitlines()
    shown = lines if full or len(lines) <= _SHOWN_LINES + 1 else lines[:_SHOWN_LINES]
    for line in shown:
        print(f"   {visible(line)}".rstrip())
    if len(shown) < len(lines):
        print("   " + paint(f"… {len(lines) - len(shown)} more lines", _DIM))
    print("")


def _trace(trace: Trace) -> str:
    parts = [
        "vector –" if trace.vector is None else f"vector {trace.vector:.2f}",
        "keyword –" if trace.keyword is None else f"keyword {trace.keyword:.2f}",
        f"fused {trace.fused:.2f}",
        *([] if trace.weight == 1 else [f"kind ×{trace.weight:.2f}"]),
        f"decay ×{trace.decay:.2f}",
        "mmr off" if trace.mmr is None else f"mmr #{trace.mmr}",
        f"channels {'+'.join(trace.channels)}",
    ]
    return " · ".join(parts)


def _explanation(numbers: Mapping[str, Any]) -> str:
    """From the query's words with the chunks that hold each, over the funnel, to where the vectors came from."""
    words = ", ".join(f"{term} {count}" for term, count in numbers["terms"].items())
    parts = [
        f"of {numbers['chunks']} chunks hold: {words}" if words else f"{numbers['chunks']} chunks",
        f"too common to ask for: {', '.join(numbers['left_out'])}" if numbers["left_out"] else "",
        f"candidates: {numbers['keyword_candidates']} by keyword, {numbers['vector_candidates']} by vector",
        f"fused {numbers['fused']}, above the floor {numbers['above_floor']}, returned {numbers['returned']}",
        f"vectors read by {numbers['vectors']}" if "vectors" in numbers else "",
        f"lane {numbers['lane']}" if numbers["lane"] else "",
    ]
    return " · ".join(filter(None, parts))


def excerpt(record: Excerpt, *, as_json: bool) -> None:
    """Lines of a file, exactly as they are unless a terminal shows them."""
    if as_json:
        print_json(record)
        return
    print_text(record.text)
    if record.end_line == 0 < record.total_lines:
        note(f"{record.path} has {record.total_lines} lines; there is nothing from line {record.start_line} on")
    if record.truncated:
        note(f"{record.path}: cut after line {record.end_line} of {record.total_lines}; ask for the rest by lines")


def context(record: Context, *, as_json: bool) -> None:
    """The text for an agent; what did not fit is named on standard error."""
    if as_json:
        print_json(record)
        return
    print_text(record.text)
    for part in record.cut:
        note(f"left out: {part}")


def status(record: Status, *, as_json: bool) -> None:
    """The state of memory and index."""
    if as_json:
        print_json(record)
        return
    rows = {
        "memory": f"{record.root} ({record.layout} layout)",
        "state": record.state,
        "today": record.today,
        "files": f"{record.files_on_disk} on disk, {record.pending} to be indexed",
        "embedding": record.embedding,
        "vectors": f"{record.missing_vectors} missing",
    }
    if record.index is not None:
        rows["index"] = f"{record.index.chunks} chunks of {record.index.sources} files"
        rows["full text"] = record.index.full_text
        rows["vectors"] = f"{sum(record.index.vectors.values())} in use, {record.missing_vectors} missing"
        for lane in record.index.lanes:
            rows[f"lane {lane.id}"] = _lane(lane)
        rows["ann"] = "; ".join(dict.fromkeys(record.index.ann.values())) or "off: there are no vectors"
    rows |= {"kernels": record.kernels, "version": record.version}
    for name, value in rows.items():
        print(f"{paint(f'{name:<10}', _DIM)} {visible(value)}")
    problems = record.index.problems if record.index is not None else ()
    for problem in (*problems, *record.notices):
        note(problem)
    if record.disabled is not None:
        note(f"search is disabled: {record.disabled}")


def _lane(lane: Lane) -> str:
    how = f"measured on {lane.measured} texts" if lane.measured else "as the model is known for"
    calibration = f"calibrated {lane.calibration.lo:.2f} to {lane.calibration.hi:.2f}, {how}"
    return f"{lane.state}: {lane.fingerprint}, {calibration}"


def speed(record: Speed, *, as_json: bool) -> None:
    """What a benchmark found."""
    if as_json:
        print_json(record)
        return
    rows = {
        "kernels": record.kernels,
        "store": f"{record.rows} × {record.dims}, {record.file_mb:.1f} MB, written in {record.fill_s:.1f} s",
        "open": f"{record.first_ms:.1f} ms to the first answer",
        "search": f"{record.p50_ms:.2f} ms median, {record.p95_ms:.2f} ms p95 (best {record.k}, read by {record.way})",
    }
    if record.scan_ms is not None:
        times = f"{record.scan_ms:.2f} ms, {record.scan_ms / record.p50_ms:.1f} times a search"
        rows["full scan"] = f"{times}; {record.same} of {record.scans} lists equal"
    for name, value in rows.items():
        print(f"{paint(f'{name:<10}', _DIM)} {visible(value)}")
