"""Who may see the page: this machine, or who has the link with the token."""

import hmac
import re
import secrets
from dataclasses import dataclass, field

LOCAL_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)


@dataclass(frozen=True)
class PageAccess:
    """Admits everybody if `token` is empty, and otherwise who knows the token.

    A browser gives the token once, in the link, and gets a cookie with another secret: so the
    token does not stay in the address bar, nor in what the page asks for. Without a token, the
    browser must have called the page by a name of this machine: otherwise a page from
    elsewhere could have its own name lead here, and read.
    """

    token: str = ""
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def has_token(self, given: str) -> bool:
        """Return whether this is the token."""
        return bool(self.token) and _equal(given, self.token)

    def admits(self, headers: dict[str, str], port: int) -> bool:
        """Return whether a request with these headers may see the page."""
        if not self.token:
            return LOCAL_NAME.fullmatch(headers.get("host", "")) is not None
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        given = [value for name, _, value in pairs if name == cookie_name(port)]
        return any(_equal(value, self._cookie) for value in given)

    def cookie(self, port: int) -> str:
        """Return the header that gives a browser its cookie; scripts cannot read it."""
        return f"{cookie_name(port)}={self._cookie}; Path=/; HttpOnly; SameSite=Lax"


def cookie_name(port: int) -> str:
    """Return the name of the cookie: browsers share cookies between the ports of a host."""
    return f"unisono-{port}"


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())
