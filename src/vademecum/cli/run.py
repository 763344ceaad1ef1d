"""One command from its arguments to its exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from vademecum.cli.output import note
from vademecum.cli.parser import build_parser
from vademecum.errors import PathError, SettingsError, UsageError, VademecumError

DONE, FAILED, WRONG_USAGE = 0, 1, 2


def run(argv: Sequence[str] | None) -> int:
    """Run one command; whatever goes wrong becomes a line on standard error and an exit code."""
    _accept_any_character()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except (UsageError, SettingsError, PathError) as error:
        note(error)
        code = WRONG_USAGE
    except VademecumError as error:
        note(error)
        code = FAILED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _silence_stdout()
        code = DONE
    except OSError as error:
        _silence_stdout()
        note(error)
        code = FAILED
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or DONE)
    code: int = args.run(args)
    return code


def _accept_any_character() -> None:
    """What the terminal's encoding does not have is shown escaped, so that printing never raises."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, or the interpreter would fail on it again while it shuts down."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
