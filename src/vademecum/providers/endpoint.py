"""Where a provider is and what it is asked with: address and key, from settings and the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from vademecum.errors import ProviderMissingError
from vademecum.providers import OPENAI_URL

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``key_name`` is the variable that holds the key, or would."""

    base_url: str
    api_key: str | None = field(repr=False)
    key_name: str


def find_endpoint(
    section: str,
    base_url: str | None,
    api_key_env: str | None,
    environ: Mapping[str, str],
    *,
    keys: Sequence[str] = ("OPENAI_API_KEY",),
    addresses: Sequence[str] = ("OPENAI_BASE_URL",),
    default_url: str = OPENAI_URL,
    root_path: str = "",
    needs_key: bool = True,
) -> Endpoint:
    """The endpoint that the settings ``section.base_url`` and ``section.api_key_env`` mean.

    ``keys`` and ``addresses`` are the variables of the vendor itself, looked up in order where a setting is None.
    Where ``needs_key``, there has to be a key or an address: a server of one's own may need none. An address without a
    path gets ``root_path``.

    Raises ProviderMissingError, naming the variable or setting that is wrong or not there.
    """
    names = (api_key_env,) if api_key_env else tuple(keys) or (f"{section}.api_key_env",)
    key_name = next((name for name in names if environ.get(name, "").strip()), names[0])
    key = environ.get(key_name, "").strip()
    address, place = base_url, f"{section}.base_url"
    if address is None and key_name in keys:
        # The key beside the vendor's own address variable belongs to that server and must not go elsewhere.
        place = next((name for name in addresses if environ.get(name, "").strip()), place)
        address = environ.get(place, "").strip() or None
    if needs_key and not key and address is None:
        raise ProviderMissingError(
            f"{key_name} is not set; set it, or {section}.base_url for a server that needs no key"
        )
    if not (key.isascii() and key.isprintable()):
        raise ProviderMissingError(f"{key_name} holds characters that no key has; copy the key anew")
    if not (address or default_url):
        raise ProviderMissingError(f"{section}.base_url is not set")
    found = normal_address(address or default_url, place)
    return Endpoint(found if urlsplit(found).path else found + root_path, key or None, key_name)


def normal_address(url: str, key: str = "embedding.base_url") -> str:
    """``url`` in one spelling: a lower-case scheme and host, no default port, no final slash.

    An address is part of a vector space's name.

    Raises ProviderMissingError, which says what is expected, for everything that is not ``http(s)://host[:port]/path``.
    User names and passwords are refused, not dropped: an address is stored and shown. ``key`` is the setting or
    variable that holds it.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ProviderMissingError(f"{key} is not an address ({error})") from error
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ProviderMissingError(
            f"{key}: expected http://host[:port]/path or https://host[:port]/path, without user name, "
            "password, query or fragment"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    explicit = "" if port in {None, _PORTS[parts.scheme]} else f":{port}"
    return f"{parts.scheme}://{host}{explicit}{parts.path.rstrip('/')}"
