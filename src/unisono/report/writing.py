"""From a run directory to its reports."""

import time
from pathlib import Path

import msgspec

from unisono.atomic import write_text
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.report import Report
from unisono.errors import ConfigError
from unisono.records.layout import RunDirectory
from unisono.records.view import read_run
from unisono.report.markdown import render_markdown
from unisono.report.page import render_html


def render_json(report: Report) -> str:
    """Return the report as JSON, format 1."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def write_report(run_path: Path) -> Report:
    """Diagnose the run as it is now and write report.html, report.json and report.md."""
    run = read_run(run_path)
    report = diagnose(run, time.time())
    directory = RunDirectory(run_path)
    write_text(directory.report("json"), render_json(report))
    write_text(directory.report("md"), render_markdown(report, run))
    write_text(directory.report("html"), render_html(report, run))
    return report


def write_page(run_path: Path, page: Path) -> Report:
    """Diagnose the run as it is now and write the page alone, to `page`."""
    if not page.parent.is_dir():
        raise ConfigError(
            f"{page.parent} is not a directory",
            where="--html",
            fix="create it, or name a file in a directory that is there",
        )
    run = read_run(run_path)
    report = diagnose(run, time.time())
    write_text(page, render_html(report, run))
    return report
