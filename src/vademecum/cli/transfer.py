"""Memories that come and go: ``import``, ``export`` and ``restore``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from vademecum.cli.grammar import command
from vademecum.cli.output import note, print_json, visible
from vademecum.cli.target import named_folder, open_memory

#: What `transfer.KINDS` says: its readers are not loaded for a grammar.
_KINDS = ("openclaw", "memsearch", "memweave", "claude-code", "basic-memory", "chatgpt", "claude", "mem0")


def add(adding: Any) -> None:
    """Add the commands to the grammar."""
    examples = ("import openclaw ~/openclaw", "import chatgpt export.zip --dry-run", "import mem0 memories.json")
    parser = command(
        adding, "import", "take over what another system remembers; nothing is overwritten", take, examples
    )
    parser.add_argument("kind", metavar="KIND", choices=_KINDS, help=", ".join(_KINDS))
    parser.add_argument("source", metavar="SOURCE", help="its folder, or the file that it exported")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be taken")
    examples = ("export backup.tar.gz", "export backup.tar --journal", "export --chunks > chunks.jsonl")
    parser = command(adding, "export", "write the memory into one archive, or its chunks as JSON lines", give, examples)
    parser.add_argument("target", metavar="FILE", nargs="?", help="the archive to make: .tar, .tar.gz or .tgz")
    parser.add_argument("--journal", action="store_true", help="with all that pages were before they were changed")
    parser.add_argument("--chunks", action="store_true", help="print a JSON object for each chunk instead")
    parser.add_argument("--vectors", action="store_true", help="with the chunks' vectors")
    parser = command(adding, "restore", "make a new folder the memory of an archive", restore, ("restore a.tar new",))
    parser.add_argument("archive", metavar="FILE", help="what `vademecum export` wrote")
    parser.add_argument("dir", metavar="DIR", help="a folder that is new or empty")


def take(args: Namespace) -> int:
    """Import."""
    from vademecum.transfer import import_memory

    with open_memory(args) as memory:
        report = import_memory(memory, args.kind, named_folder(args.source), dry_run=args.dry_run)
    if args.json:
        print_json(report)
    else:
        would = "would be taken" if args.dry_run else "taken"
        for path in report.pages:
            print(visible(path))
        counts = f"{len(report.pages)} pages, {len(report.sessions)} conversations"
        print(f"{counts} {would}; {report.known} known already, {len(report.skipped)} skipped")
    for name, reason in report.skipped:
        note(f"skipped {name}: {reason}")
    return 0


def give(args: Namespace) -> int:
    """Export."""
    from vademecum.errors import UsageError
    from vademecum.transfer import export_archive, export_chunks

    if args.chunks == (args.target is not None):
        raise UsageError("name one FILE for the archive, or give --chunks")
    if args.vectors and not args.chunks:
        raise UsageError("--vectors goes with --chunks; an archive holds nothing that can be built again")
    with open_memory(args) as memory:
        if args.chunks:
            for line in export_chunks(memory, vectors=args.vectors):
                print(line)
            return 0
        done = export_archive(memory, Path(args.target).expanduser(), journal=args.journal)
    _told(done.files, done.size, args)
    return 0


def restore(args: Namespace) -> int:
    """Restore."""
    from vademecum.transfer import restore_archive

    done = restore_archive(Path(args.archive).expanduser(), named_folder(args.dir))
    _told(done.files, done.size, args)
    return 0


def _told(files: int, size: int, args: Namespace) -> None:
    if args.json:
        print_json({"files": files, "bytes": size})
    else:
        print(f"{files} files, {size} bytes")
