"""Packages that bring a model with them: are they here, and exactly which weights do they hold?"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from vademecum.errors import ProviderMissingError
from vademecum.providers import is_installed


def weights_digest(package: str, files: tuple[str, ...], install: str) -> str:
    """First 16 hex digits of the SHA-256 over the package's weight files, in the order given.

    Hashing 30 MB takes about 20 ms, less than finding the digests that the installer recorded. Raises
    ProviderMissingError, with the command that helps, if the package or a file is not there.
    """
    spec = find_spec(package) if is_installed(package) else None
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise ProviderMissingError(f"the package {package} is not installed; {install}")
    digest = hashlib.sha256()
    try:
        for name in files:
            with (Path(folders[0]) / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise ProviderMissingError(f"the package {package} is damaged ({error}); {install}") from error
    return digest.hexdigest()[:16]
