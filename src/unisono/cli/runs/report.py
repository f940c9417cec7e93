"""`unisono report`: the eleven answers."""

import sys
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.records.view import read_run
from unisono.report.page import render_json, write_page, write_report
from unisono.report.text import render_markdown, render_text


@click.command()
@click.argument("run", type=PathType)
@click.option(
    "--html",
    metavar="FILE",
    type=PathType,
    help="Write only the page, to FILE, and nothing into RUN.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--md", "as_markdown", is_flag=True, help="Print the report as Markdown.")
def report(run: Path, html: Path | None, as_json: bool, as_markdown: bool) -> None:
    """Answer the eleven questions about RUN, and write report.html, report.md, report.json."""
    found = write_page(run, html) if html else write_report(run)
    if as_json:
        print(render_json(found))
    elif as_markdown:
        print(render_markdown(found, read_run(run)))
    else:
        print(render_text(found))
    written = html or f"{run}/report.html, report.md and report.json"
    print(f"wrote {written}", file=sys.stderr)
