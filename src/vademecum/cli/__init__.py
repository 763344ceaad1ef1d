"""The command line: ``vademecum COMMAND``.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted. Results go to standard output, everything
else to standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (None: the arguments of the process) and return its exit code."""
    try:
        # Loading the rest takes long enough to be interrupted, so that happens in here.
        from vademecum.cli.run import run

        return run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
