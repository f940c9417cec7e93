"""From a run directory to its three reports."""

import time
from pathlib import Path

import msgspec

from unisono.atomic import write_text
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.report import Report
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
