"""What commands that search have in common."""

from __future__ import annotations

import argparse
from typing import Any

from vademecum.settings import FUSIONS
from vademecum.types import KINDS


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """A query, and all that narrows it or changes its ranking."""
    parser.add_argument("query", metavar="QUERY", help="a question or some words, in any language")
    parser.add_argument("-k", dest="max_results", metavar="N", type=int, help="at most N hits")
    parser.add_argument("--min-score", metavar="X", type=float, help="drop hits less relevant than X, from 0 to 1")
    parser.add_argument("--since", metavar="D", help="only notes dated D or later: YYYY-MM-DD, today, yesterday, 30d")
    parser.add_argument("--until", metavar="D", help="only notes dated D or earlier")
    parser.add_argument("--path", metavar="GLOB", help="only files whose path matches; * also crosses /")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only notes of this kind; may be repeated")
    parser.add_argument("--tag", metavar="T", help="only files with this tag, in front matter or as #T in the text")
    parser.add_argument("--heading", metavar="H", help="only notes under a heading of this title, in any letter case")
    parser.add_argument("--fusion", choices=FUSIONS, help="how the two channels become one score")
    parser.add_argument("--no-decay", action="store_true", help="do not let older dated notes fade")
    parser.add_argument("--no-mmr", action="store_true", help="keep near copies of one another")


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `Memory.search`, but for the query and how long to wait."""
    return {
        "max_results": args.max_results,
        "min_score": args.min_score,
        "since": args.since,
        "until": args.until,
        "path": args.path,
        "kind": None if args.kind is None else tuple(args.kind),
        "tag": args.tag,
        "heading": args.heading,
        "fusion": args.fusion,
        "decay": False if args.no_decay else None,
        "mmr": False if args.no_mmr else None,
    }
