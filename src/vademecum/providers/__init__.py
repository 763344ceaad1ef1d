"""Clients of model vendors. Each vendor's package is imported in exactly one module here, and only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vademecum.errors import ProviderMissingError

if TYPE_CHECKING:
    from vademecum.providers.openai import OpenAIClient

__all__ = ["INSTALL_OPENAI", "OPENAI_URL", "is_installed", "openai_client"]

OPENAI_URL = "https://api.openai.com/v1"
INSTALL_OPENAI = "pip install 'vademecum[openai]'"


def is_installed(package: str) -> bool:
    """Whether a top-level package could be imported; it is not loaded for this."""
    try:
        return find_spec(package) is not None
    except ValueError:  # in sys.modules without a spec
        return False


def openai_client(
    base_url: str,
    api_key: str | None,
    key_name: str,
    section: str = "embedding",
    headers: Mapping[str, str] | None = None,
) -> OpenAIClient:
    """A client of any OpenAI-compatible address. Loads the vendor's package, about half a second the first time.

    ``key_name`` is what error messages call the key, ``section`` the part of the settings it was made for;
    ``headers`` go with every call. Raises ProviderMissingError without the package.
    """
    try:
        from vademecum.providers.openai import OpenAIClient
    except ImportError as error:
        raise ProviderMissingError(
            f"the package openai cannot be imported ({error}); {INSTALL_OPENAI}, or choose another {section} model"
        ) from error
    return OpenAIClient(base_url, api_key, key_name, section, headers)
