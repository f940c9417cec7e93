"""`unisono compare`: runs side by side."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.diagnose.diagnosis import diagnose
from unisono.printable import printable
from unisono.records.view import read_run
from unisono.report.comparison import ComparisonRow, RunComparison, compare_runs
from unisono.report.page import write_comparison

WIDEST = 36


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PathType)
@click.option("--html", metavar="FILE", type=PathType, help="Write a page with curves to FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--md", "as_markdown", is_flag=True, help="Print it as Markdown tables.")
def compare(
    runs: tuple[Path, ...], html: Path | None, as_json: bool, as_markdown: bool
) -> None:
    """Compare the runs in the directories RUNS: their settings and their results."""
    views = [read_run(run) for run in runs]
    for sentence in (sentence for view in views for sentence in view.damaged):
        print(f"note: {sentence}", file=sys.stderr)
    pairs = [(view, diagnose(view, time.time())) for view in views]
    if html:
        write_comparison(pairs, html)
    found = compare_runs(pairs)
    if as_json:
        print(_as_json(found))
    else:
        print(_tables(found, "| {} |" if as_markdown else "{}"))
    if html:
        print(f"wrote {html}", file=sys.stderr)


def _as_json(found: RunComparison) -> str:
    tables = {"settings": found.settings, "results": found.results}
    columns = {
        name: {row.name: dict(zip(found.names, row.cells, strict=True)) for row in rows}
        for name, rows in tables.items()
    }
    return json.dumps({"format": 1, "runs": found.names, **columns})


def _tables(found: RunComparison, frame: str) -> str:
    blocks = [_table("results", found.names, found.results, frame)]
    if found.settings:
        blocks.append(_table("settings that differ", found.names, found.settings, frame))
    elif len(found.names) > 1:
        blocks.append("all settings are the same")
    return "\n\n".join(blocks)


def _table(title: str, names: Sequence[str], rows: Sequence[ComparisonRow], frame: str) -> str:
    marked = frame != "{}"
    lines = [(title, *names), *((row.name, *row.cells) for row in rows)]
    cells = [[_cell(cell, marked=marked) for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in cells) for column in range(len(lines[0]))]
    joint = " | " if marked else "  "
    shown = [
        frame.format(joint.join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)))
        for line in cells
    ]
    if marked:
        shown.insert(1, frame.format(joint.join("-" * max(3, width) for width in widths)))
    return "\n".join(line.rstrip() for line in shown)


def _cell(text: str, *, marked: bool) -> str:
    plain = printable(text)
    if marked:
        return plain.replace("|", "\\|")
    return plain if len(plain) <= WIDEST else f"…{plain[1 - WIDEST :]}"
