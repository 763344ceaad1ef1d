"""Memory for agents of other frameworks: a module and an extra for each, none of them imported from here."""

from __future__ import annotations

from vademecum.errors import PackageMissingError


def missing(package: str, extra: str) -> PackageMissingError:
    """What a module raises when it is imported without its framework."""
    return PackageMissingError(f"{package} is not installed; install it with: pip install 'vademecum[{extra}]'")
