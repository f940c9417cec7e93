"""Runs the live page from its start to its end."""

import asyncio
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from unisono.errors import ConfigError
from unisono.live_page.access import PageAccess
from unisono.live_page.server import run_page
from unisono.report.page import short_names
from unisono.secure.listen import bind, is_loopback

MOST_RUNS = 12


def serve_page(
    paths: Sequence[Path], host: str, port: int, tell: Callable[[str], None]
) -> None:
    """Show runs to browsers until a signal ends it; `tell` gets the link."""
    if len(paths) > MOST_RUNS:
        raise ConfigError(
            f"a page shows {MOST_RUNS} runs, not {len(paths)}",
            where="unisono watch --web",
            fix="name fewer",
        )
    with bind(host, port) as bound:
        address, port = bound.getsockname()[:2]
        local = is_loopback(address)
        access = PageAccess("" if local else secrets.token_urlsafe(32))
        names, address = short_names(paths), link(address, port, access)
        asyncio.run(run_page(bound, paths, names, access, lambda: tell(address)))


def link(address: str, port: int, access: PageAccess) -> str:
    """Return the link to open, which holds the token if there is one."""
    unbound = address in ("0.0.0.0", "::")
    name = os.uname().nodename if unbound else address
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={access.token}" if access.token else "")
