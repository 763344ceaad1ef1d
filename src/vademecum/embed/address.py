"""The address of a provider, in one spelling: it is part of a vector space's name."""

from __future__ import annotations

from urllib.parse import urlsplit

from vademecum.errors import ProviderMissingError

_PORTS = {"http": 80, "https": 443}


def normal_address(url: str) -> str:
    """``url`` with a lower-case scheme and host, without a default port and a final slash.

    Raises ProviderMissingError, which says what is expected, for everything that is not ``http(s)://host[:port]/path``.
    User names and passwords are refused, not dropped: an address is stored and shown.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ProviderMissingError(f"embedding.base_url is not an address ({error})") from error
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ProviderMissingError(
            "embedding.base_url: expected http://host[:port]/path or https://host[:port]/path, without user name, "
            "password, query or fragment"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    explicit = "" if port in {None, _PORTS[parts.scheme]} else f":{port}"
    return f"{parts.scheme}://{host}{explicit}{parts.path.rstrip('/')}"
