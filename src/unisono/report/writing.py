"""From a run directory to its reports."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unisono.atomic import write_text
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import judge
from unisono.diagnose.report import Report
from unisono.errors import ConfigError
from unisono.records.layout import RunDirectory
from unisono.records.view import RunView, read_run
from unisono.report.markdown import render_markdown
from unisono.report.page import render_comparison, render_html


def render_json(report: Report) -> str:
    """Return the report as JSON, format 1."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def write_report(run_path: Path) -> Report:
    """Diagnose the run as it is now and write report.html, report.json and report.md."""
    case = open_case(read_run(run_path), time.time())
    report, directory = judge(case), RunDirectory(run_path)
    write_text(directory.report("json"), render_json(report))
    write_text(directory.report("md"), render_markdown(report, case.run))
    write_text(directory.report("html"), render_html(report, case.run, case.ledger))
    return report


def write_page(run_path: Path, page: Path) -> Report:
    """Diagnose the run as it is now and write the page alone, to `page`."""
    _check_place(page)
    case = open_case(read_run(run_path), time.time())
    report = judge(case)
    write_text(page, render_html(report, case.run, case.ledger))
    return report


def write_comparison(runs: Sequence[tuple[RunView, Report]], page: Path) -> None:
    """Write the page of several runs to `page`."""
    _check_place(page)
    write_text(page, render_comparison(runs))


def _check_place(page: Path) -> None:
    if not page.parent.is_dir():
        raise ConfigError(
            f"{page.parent} is not a directory",
            where="--html",
            fix="create it, or name a file in a directory that is there",
        )
