"""Every peer beside us, as ratios in one run: `python -m benchmarks.peers`, or `make bench-peers`.

A peer that cannot be installed or fails is named in the table and stops nobody else.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.peers import duel, environment, table
from benchmarks.peers.duel import Promise, Rival, Row
from benchmarks.peers.process import PeerFailedError, Process
from benchmarks.peers.protocol import Task
from benchmarks.peers.tasks import Reference, text_task, vector_task

SCENARIOS = ("exact", "open", "systems")
K, SYSTEM_K = 10, 6
QUERIES, QUESTIONS = 1000, 200
SYSTEM_DIMS = 512

#: Promises hold for these sizes; FAISS by dimensions.
PROMISED_ROWS, PROMISED_SECTIONS = 100_000, (10_000, 50_000)
FAISS = {1536: Promise(2.5, 4), 384: Promise(2, 3)}
VECTOR_RIVALS = (
    Rival("ours:Floats", "vademecum, float32 from the map"),
    Rival("numpy_matmul:Matmul", "numpy matmul + argpartition"),
    Rival("faiss:Flat", "faiss IndexFlatIP"),
    Rival("usearch:Exact", "usearch exact"),
    Rival("sqlite_vec:Vec0", "sqlite-vec vec0", Promise(15, 25)),
    Rival("hnswlib:Graph", "hnswlib M=16 ef=200", approximate=True),
    Rival("chroma:Collection", "chromadb", approximate=True),
)
OPENED = (Rival("faiss:FromBlobs", "faiss from joined BLOBs"), Rival("faiss:Flat", "faiss.read_index"))
OPENING = Promise(10, 50)
OURSELVES = (
    Rival("ours:Looking", "vademecum, no watcher: looks at the folder"),
    Rival("ours:AtOnce", "vademecum, neither watcher nor look"),
)
SYSTEMS = (
    *OURSELVES,
    Rival("memweave:Hybrid", "memweave", Promise(40, 150)),
    Rival("memsearch:Hybrid", "memsearch (Milvus Lite)", Promise(5, 15)),
    Rival("txtai:Hybrid", "txtai", Promise(1, 2.5)),
)
#: The others cannot index as many in reasonable time.
LARGE_SYSTEMS = (
    *OURSELVES,
    Rival("txtai:Hybrid", "txtai", Promise(1, 2)),
)


class Contest:
    """One run: environments, data, and the tables as they grow."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self._options = options
        self._scratch = scratch
        self._pythons: dict[str, Path] = {}
        self.tables: list[dict[str, Any]] = []

    def run(self) -> None:
        """All scenarios that were asked for; results are written after each table."""
        o = self._options
        for rows in o.rows:
            for dims in o.dims:
                if {"exact", "open"} & set(o.scenarios):
                    self._vectors(rows, dims)
        if "systems" in o.scenarios:
            for sections in o.sections:
                self._systems(sections)

    def _vectors(self, rows: int, dims: int) -> None:
        size = f"{rows:,} × {dims}"
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            task = vector_task(Path(folder) / "task", rows, dims, QUERIES, K)
            our_build = self._build("ours:Exact", task)
            if "exact" in self._options.scenarios:
                rivals = [_promised(rival, rows, dims) for rival in self._wanted(VECTOR_RIVALS)]
                title = f"Exact top {K} of {size}, one thread"
                self._search(title, "ours:Exact", our_build, rivals, task, Reference(task, QUERIES))
            if "open" in self._options.scenarios:
                promise = OPENING if rows == PROMISED_ROWS else None
                rivals = [replace(rival, promise=promise) for rival in self._wanted(OPENED)]
                self._open(f"Open and first search, {size}, warm page cache", rivals, task)

    def _systems(self, sections: int) -> None:
        rivals = self._wanted(SYSTEMS if sections <= PROMISED_SECTIONS[0] else LARGE_SYSTEMS)
        if sections not in PROMISED_SECTIONS:
            rivals = [replace(rival, promise=None) for rival in rivals]
        title = f"Hybrid search, {sections:,} chunks × {SYSTEM_DIMS}, embedding excluded, {SYSTEM_K} results"
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            task = text_task(Path(folder) / "task", sections, SYSTEM_DIMS, QUESTIONS, SYSTEM_K)
            our_build = self._build("ours:Whole", task)
            self._search(title, "ours:Whole", our_build, rivals, task, None)

    # -- one table ----------------------------------------------------------------------------------------------

    def _search(
        self, title: str, us: str, our_build: float, rivals: Sequence[Rival], task: Task, reference: Reference | None
    ) -> None:
        self._begin(title)
        queries = len(task.queries())
        with Process(self._python(us), us, task) as ours:
            version = ours.ask("open")["version"]
            mine = duel.collect(ours, 0, queries)
            verdict = duel.judge(mine, Rival(us, "vademecum"), reference, mine)
            if reference is not None and verdict["same"] != verdict["checked"]:
                print(f"  NOT EXACT: {verdict['checked'] - verdict['same']} lists differ from the float64 reference")
            p50 = statistics.median(ours.ask("search", first=0, count=queries)["ms"])
            self._add(Row("vademecum", version, p50, p50, 1.0, 1.0, 1.0, build_s=our_build, **verdict))
            for rival in rivals:
                self._add(self._row(ours, rival, task, reference, mine, queries))

    def _row(
        self, ours: Process, rival: Rival, task: Task, reference: Reference | None, mine: duel.Answers, queries: int
    ) -> Row:
        try:
            seconds = self._build(rival.name, task)
            with Process(self._python(rival.name), rival.name, task) as process:
                version = process.ask("open")["version"]
                ms = duel.pace(process)
                verdict = duel.judge(duel.collect(process, ms, queries), rival, reference, mine)
                measured = duel.times(ours, process, ms, self._options.rounds, queries)
                memory = process.ask("memory") | {f"our_{key}": mb for key, mb in ours.ask("memory").items()}
        except (PeerFailedError, environment.UninstallableError) as error:
            return Row(rival.title, failed=str(error), **_terms(rival))
        return Row(rival.title, version, build_s=seconds, **measured, **verdict, **memory, **_terms(rival))

    def _open(self, title: str, rivals: Sequence[Rival], task: Task) -> None:
        self._begin(title)
        us = "ours:Exact"
        for rival in rivals:
            try:
                self._build(rival.name, task)
                taken = duel.openings(self._python, (us, rival.name), task, self._options.rounds)
            except (PeerFailedError, environment.UninstallableError) as error:
                self._add(Row(rival.title, failed=str(error), **_terms(rival)))
            else:
                compared = duel.compare(taken[us], taken[rival.name])
                self._add(Row(rival.title, **compared, **_terms(rival)))

    # -- the rest -----------------------------------------------------------------------------------------------

    def _begin(self, title: str) -> None:
        self.tables.append({"title": title, "rows": []})
        print(f"\n{title}", flush=True)

    def _add(self, row: Row) -> None:
        self.tables[-1]["rows"].append(row.plain())
        print("  " + table.line(row.plain()), flush=True)
        table.write(self._options.out, describe(), self.tables)

    def _wanted(self, rivals: Sequence[Rival]) -> list[Rival]:
        only = self._options.only
        return [rival for rival in rivals if not only or rival.name.partition(":")[0] in only]

    def _build(self, name: str, task: Task) -> float:
        with Process(self._python(name), name, task) as process:
            return float(process.ask("build")["seconds"])

    def _python(self, name: str) -> Path:
        module_name = name.partition(":")[0]
        if module_name not in self._pythons:
            module = importlib.import_module(f"benchmarks.peers.{module_name}")
            place = environment.OURS if module_name == "ours" else module_name
            print(f"  ({place}: its environment)", flush=True)
            self._pythons[module_name] = environment.prepare(self._options.venvs, place, module.REQUIRES, module.NEEDS)
        return self._pythons[module_name]


def _terms(rival: Rival) -> dict[str, Any]:
    return {"floor": rival.promise.floor, "aim": rival.promise.aim} if rival.promise else {}


def _promised(rival: Rival, rows: int, dims: int) -> Rival:
    promise = FAISS.get(dims) if rival.name == "faiss:Flat" else rival.promise
    return replace(rival, promise=promise if rows == PROMISED_ROWS else None)


def main() -> None:
    """Run, print, and write peers.json and peers.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000], help="vectors (exact, open)")
    parser.add_argument("--dims", nargs="+", type=int, default=[1536, 384])
    parser.add_argument("--sections", nargs="+", type=int, default=[10_000, 50_000], help="chunks (systems)")
    parser.add_argument("--only", nargs="+", metavar="PEER", help="these modules of benchmarks/peers alone")
    parser.add_argument("--rounds", type=int, default=15, help="times that both are asked in turn")
    parser.add_argument("--venvs", type=Path, default=Path("build/peers-venv"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2: ratios need quartiles")
    options.venvs = options.venvs.absolute()
    options.venvs.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    print(describe())
    with tempfile.TemporaryDirectory(prefix="vademecum-peers-") as scratch:
        Contest(options, Path(scratch)).run()


if __name__ == "__main__":
    main()
