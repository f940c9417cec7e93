"""`unisono serve`: models behind the protocol of LibreTranslate, with a web page."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click

from unisono.cli.options import Number, PathType
from unisono.errors import ConfigError
from unisono.printable import printable
from unisono.secure.listen import bind, is_loopback
from unisono.serve.settings import ServeLimits, ServeWorkers

_DEFAULT = ServeLimits()


@click.command()
@click.argument("bundles", type=PathType, nargs=-1, required=True, metavar="BUNDLE...")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen at."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=5000,
    show_default=True,
    help="The port; 0 takes any that is free.",
)
@click.option(
    "--engine",
    type=click.Choice(["unisono", "ctranslate2"]),
    default="unisono",
    show_default=True,
    help="What searches; ctranslate2 takes exports of `unisono export` as BUNDLE.",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "bf16", "auto"]),
    default="fp32",
    show_default=True,
    help="Of products: bf16 is faster and nearly the same; auto takes it if it pays.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=None,
    help="Processes that translate, each on one core.  [default: one per core]",
)
@click.option(
    "--keys", type=PathType, help="A file with a key on each line: only who has one may ask."
)
@click.option(
    "--rate",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Requests a minute for each key or address; 0 is no limit.",
)
@click.option(
    "--max-characters",
    type=click.IntRange(1, 10_000_000),
    default=_DEFAULT.characters,
    show_default=True,
    help="The most characters in a request.",
)
@click.option(
    "--timeout",
    type=Number(1, 3600),
    default=_DEFAULT.translate_seconds,
    show_default=True,
    help="Seconds that the translation of one request may take.",
)
@click.option(
    "--patience",
    type=Number(0.1, 600),
    default=_DEFAULT.head_seconds,
    show_default=True,
    help="Seconds that a client has to send the head of a request, and then its body.",
)
def serve(
    bundles: tuple[Path, ...],
    host: str,
    port: int,
    engine: str,
    precision: Literal["auto", "fp32", "bf16"],
    workers: int | None,
    keys: Path | None,
    rate: int,
    max_characters: int,
    timeout: float,
    patience: float,
) -> None:
    """Serve models over HTTP: a web page, and the protocol of LibreTranslate.

    Each BUNDLE, or finished run, is one pair of languages. Requests that arrive together are
    translated together. A bundle that is replaced is loaded again: new requests get it, and the
    old one finishes what it has begun. Ctrl-C or SIGTERM stops the server after it has answered
    what it has accepted; a second one stops it at once. Only this machine can reach the server
    unless --host says otherwise.
    """
    _require("starlette", "uvicorn", "prometheus_client")
    if engine == "ctranslate2":
        from unisono.cli.export import require_ctranslate2

        require_ctranslate2()
        if precision != "fp32":
            raise ConfigError(
                "the precision of an export was chosen when it was made",
                where="--precision",
                fix="leave out --precision, or export with another --quantize",
            )
    import asyncio

    from unisono.serve.access import ApiKeys
    from unisono.serve.run import run_server
    from unisono.serve.served_models import open_models

    known = ApiKeys(keys)
    open_models(bundles, engine)
    limits = ServeLimits(
        body_bytes=max(_DEFAULT.body_bytes, 12 * max_characters),  # as JSON escapes text
        characters=max_characters,
        requests_per_minute=rate,
        head_seconds=patience,
        body_seconds=patience,
        translate_seconds=timeout,
        stop_seconds=timeout + 10,
    )
    with bind(host, port) as bound:
        if not is_loopback(bound.getsockname()[0]) and not known.are_required:
            _tell("whoever reaches this address may translate: --keys FILE asks for a key")
        count = workers or len(os.sched_getaffinity(0))
        plan = ServeWorkers(engine, count, precision)
        asyncio.run(run_server(bound, bundles, plan, known, limits, _tell))


def _require(*packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)} is not installed",
            where="unisono serve",
            fix="pip install 'unisono[serve]'",
        )


def _tell(news: str) -> None:
    print(printable(news), file=sys.stderr, flush=True)
