"""Everything that can be wrong with a memory, looked at in turn, and mended where that costs nothing but time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from vademecum.diagnose.folder import (
    check_journal,
    check_layout,
    check_leftovers,
    check_permissions,
    check_set_aside,
)
from vademecum.diagnose.machine import check_clock, check_kernels, check_provider
from vademecum.errors import HistoryError, IndexUnavailableError, StoreError
from vademecum.history import HistoryFile, salvage
from vademecum.ports import Embedder, IndexBackend
from vademecum.store.layout import Layout
from vademecum.store.places import Places
from vademecum.store.scan import Scan
from vademecum.sync import Plan
from vademecum.types import Finding, SyncReport


@dataclass(frozen=True, slots=True)
class Patient:
    """A memory as the doctor sees it, and what can be done for it.

    ``state`` is where its index lies, ``index`` gives it or raises IndexUnavailableError. ``plan`` compares it with the
    files, ``sync`` brings it up to them, ``mend`` sets damaged files of it aside and begins them anew. ``embedder`` is
    None for ``reason``.
    """

    layout: Layout
    places: Places
    zone: str | None
    today: date
    state: Path
    embedder: Embedder | None
    reason: str
    index: Callable[[], IndexBackend]
    plan: Callable[[], Plan]
    sync: Callable[[], SyncReport]
    mend: Callable[[], None]
    history: HistoryFile
    notices: tuple[tuple[str, str], ...] = ()


def examine(patient: Patient, fix: bool) -> Iterator[tuple[str, Finding]]:
    """Findings in order, each with the path of the page that it tells of, "" if it tells of none."""
    root = patient.layout.root
    if not os.access(root, os.R_OK | os.X_OK):
        yield (
            "",
            Finding(
                "pages", "wrong", str(root), "the folder is gone or cannot be read", "mount it, or make it readable"
            ),
        )
        return
    yield from _of_nobody(_set_aside_at_opening(patient))
    yield from _of_nobody(check_layout(patient.layout))
    yield from _of_nobody(check_permissions(root, patient.state, fix))
    found, folders, findings = _scan(patient)
    yield from findings
    yield from _of_nobody(check_leftovers(root, folders, patient.state, fix))
    yield from _of_nobody(check_set_aside(patient.state))
    yield from _of_nobody(check_journal(root))
    yield from _of_nobody(_history(patient, fix))
    newest = max(
        ((file.path, _changed(file.stamp)) for file in found.files if not file.spoken),
        key=lambda page: page[1],
        default=None,
    )
    path = newest[0] if newest else ""
    for finding in check_clock(patient.today, patient.zone, newest, time.time()):
        yield (path if finding.where == path else "", finding)
    yield from _of_nobody(check_kernels())
    yield from _of_nobody(check_provider(patient.embedder, patient.reason))
    yield from _of_nobody(_index(patient, fix))
    yield from _pages(patient, fix)
    yield from _of_nobody(_lanes(patient))


def _of_nobody(findings: Iterator[Finding]) -> Iterator[tuple[str, Finding]]:
    return (("", finding) for finding in findings)


def _set_aside_at_opening(patient: Patient) -> Iterator[Finding]:
    for _, notice in patient.notices:
        yield Finding("opening", "fixed", str(patient.state), notice, "it is being built anew")


def _scan(patient: Patient) -> tuple[Scan, list[str], list[tuple[str, Finding]]]:
    folders: list[str] = []
    try:
        found = patient.places.scan(folders.append)
    except StoreError as error:
        return Scan(()), [], [("", Finding("pages", "wrong", str(patient.layout.root), str(error), "make it readable"))]
    told = [(path, Finding("pages", "note", path, notice)) for path, notice in found.notices]
    return found, folders, told


def _changed(stamp: str) -> float:
    """The time of the last change, in seconds, that a file's stamp holds."""
    return int(stamp.split(":")[1]) / 1e9


def _index(patient: Patient, fix: bool) -> Iterator[Finding]:
    try:
        findings = list(patient.index().examine(fix))
        if fix and any(finding.state == "wrong" for finding in findings):
            patient.mend()
            still = {(f.check, f.where) for f in patient.index().examine(fix) if f.state == "wrong"}
            findings = [_if_gone(finding, still) for finding in findings]
        yield from findings
    except IndexUnavailableError as error:
        yield Finding("index", "wrong", str(patient.state), str(error), "do what the message says")


def _if_gone(finding: Finding, still: set[tuple[str, str]]) -> Finding:
    if finding.state != "wrong" or (finding.check, finding.where) in still:
        return finding
    return replace(finding, state="fixed", fix="what was damaged beyond repair was set aside and is built anew")


def _pages(patient: Patient, fix: bool) -> Iterator[tuple[str, Finding]]:
    try:
        if fix:
            report = patient.sync()
            for path, reason in report.failed:
                where = "" if path == "embedding" else path
                yield where, Finding("pages", "wrong", path, reason, "mend the file, then `vademecum sync`")
            if report.added or report.changed or report.removed:
                counts = f"{report.added} added, {report.changed} changed, {report.removed} removed"
                yield "", Finding("pages", "fixed", str(patient.layout.root), counts, "indexed")
            if not report.failed:
                yield "", Finding("pages", "ok", str(patient.layout.root), "the index equals the folder")
            return
        yield from _behind(patient)
    except (IndexUnavailableError, StoreError) as error:
        yield "", Finding("pages", "wrong", str(patient.layout.root), str(error), "do what the message says")


def _behind(patient: Patient) -> Iterator[tuple[str, Finding]]:
    """Pages that cannot be read, and how many the index does not have as they are. Reads what seems changed."""
    todo, known = patient.plan(), patient.index().fingerprints()
    waiting = len(todo.removed)
    for file in todo.to_read:
        if file.spoken:
            waiting += file not in todo.verify
            continue
        try:
            source = patient.places.load(file, time.time()).source
        except StoreError as error:
            yield file.path, Finding("pages", "wrong", file.path, str(error), "mend the file, then `vademecum sync`")
            continue
        waiting += file.path not in known or known[file.path].fingerprint != source.fingerprint
    root = str(patient.layout.root)
    if waiting:
        yield "", Finding("pages", "note", root, f"{waiting} changes are not indexed yet", "the next search does that")
    else:
        yield "", Finding("pages", "ok", root, "the index has every page that can be read")


def _lanes(patient: Patient) -> Iterator[Finding]:
    try:
        health = patient.index().health()
        lost = patient.index().collect(None, time.time(), dry_run=True)
    except IndexUnavailableError:
        return  # told above
    for lane in health.lanes:
        what = f"{lane.state}, with vectors of {health.vectors[lane.fingerprint]} of {health.chunks} chunks"
        yield Finding("lanes", "ok", lane.fingerprint, what)
    if lost.texts:
        what = f"{lost.vectors} vectors of {lost.texts} texts that stand nowhere any more"
        yield Finding("orphans", "note", health.location, what, "`vademecum gc` removes them when they are old")
    for problem in health.problems:
        yield Finding("index", "note", health.location, problem)


def _history(patient: Patient, fix: bool) -> Iterator[Finding]:
    file = patient.history
    try:
        problems = file.problems() if file.path.exists() else []
        if not problems:
            yield Finding(
                "history", "ok", str(file.path), "sound" if file.path.exists() else "no conversations are kept"
            )
        elif fix:
            saved = salvage(file)
            what = f"{saved.messages} messages of {saved.sessions} sessions were saved, about {saved.lost} are lost"
            yield Finding("history", "fixed", str(file.path), what, f"the damaged file is kept as {saved.kept}")
        else:
            what = "; ".join(problems).replace("\n", " ")
            yield Finding("history", "wrong", str(file.path), what, "`vademecum doctor --fix` saves what can be read")
    except (HistoryError, StoreError) as error:
        yield Finding("history", "wrong", str(file.path), str(error), "do what the message says")
