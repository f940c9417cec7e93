"""`unisono watch`: a run while it goes on."""

from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.errors import ConfigError, DataError
from unisono.printable import printable
from unisono.records.view import read_imported


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PathType, metavar="RUN...")
@click.option("--every", default=1.0, show_default=True, help="Seconds between two refreshes.")
@click.option("--once", is_flag=True, help="Show the page once and exit.")
@click.option("--web", is_flag=True, help="Show the page in a browser, also of several runs.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="With --web: the address to listen at. Others than this machine need the link with "
    "the token that is printed.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6006,
    show_default=True,
    help="With --web: the port; 0 takes any that is free.",
)
def watch(
    runs: tuple[Path, ...], every: float, once: bool, web: bool, host: str, port: int
) -> None:
    """Show how the run in the directory RUN is doing, until it ends or you press Ctrl-C.

    The page shows progress, loss, BLEU, speed, where the time of each process goes, what the
    machines do, and what slows the run down right now. It only reads files, so it works over
    ssh, in tmux, and while the run goes on. With --web the page is for a browser: it has the
    charts of the report, takes several runs, and stays until Ctrl-C.
    """
    for run in runs:
        if read_imported(run) is not None:
            raise DataError(
                f"{run} was imported from another trainer, so it has no live state",
                where=str(run),
                fix=f"read its report: unisono report {run}",
            )
    if web:
        _serve(runs, host, port)
    elif len(runs) > 1:
        raise ConfigError(
            f"a terminal shows one run, not {len(runs)}",
            where="unisono watch",
            fix="name one run, or add --web to see them in a browser",
        )
    else:
        # A browser's page needs no terminal, and little memory.
        from unisono.cli.pages.run_in_terminal import watch_in_terminal

        watch_in_terminal(runs[0], every, once=once)


def _serve(runs: tuple[Path, ...], host: str, port: int) -> None:
    from unisono.live_page.run import serve_page

    serve_page(runs, host, port, lambda words: print(printable(words), flush=True))
