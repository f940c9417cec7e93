"""Which addresses may be asked, and in which order."""

import ipaddress
from urllib.parse import urlsplit, urlunsplit

from unisono.corpora.fetch.remote import Remote


def addresses(remote: Remote) -> tuple[str, ...]:
    """Return where to ask for `remote`: all that is encrypted first, then the rest.

    Every http address is tried as https. As http it is only tried if a checksum would tell
    that somebody on the way changed the file, or if there is no way (this machine).
    """
    safe = [url if is_private(url) else _as_https(url) for url in remote.urls]
    plain = [url for url in remote.urls if remote.has_checksum and not is_private(url)]
    return tuple(dict.fromkeys(safe + plain))


def is_private(url: str) -> bool:
    """Whether nobody on the way can read or change what comes from `url`."""
    parts = urlsplit(url)
    return parts.scheme == "https" or _is_this_machine(parts.hostname or "")


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _as_https(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(":80")
    return urlunsplit(parts._replace(scheme="https", netloc=host))
