"""A run, or several, as one page of HTML, and the report files of a run directory.

A page has one small script of ours and loads nothing from elsewhere.
"""

import hashlib
import re
import time
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from unisono.atomic import write_text
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import judge
from unisono.diagnose.evidence.adaptation import adaptation_words
from unisono.diagnose.evidence.ledger import Ledger, keep_ledger
from unisono.diagnose.evidence.sessions import sessions_of
from unisono.diagnose.evidence.spending import spending_words
from unisono.diagnose.report import Report
from unisono.errors import ConfigError
from unisono.printable import printable_json
from unisono.records.layout import RunDirectory
from unisono.records.view import RunView, read_run
from unisono.report import facts
from unisono.report.charts import charts_of
from unisono.report.comparison import HUES, compare_runs, over_steps, over_time
from unisono.report.facts import SEVERITIES, spaced, tone
from unisono.report.step_bars import spoken
from unisono.report.text import render_markdown

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def render_html(report: Report, run: RunView, ledger: Ledger | None = None) -> str:
    """Return the page. Whatever comes from the run is escaped.

    Pass `ledger` if it is already there.
    """
    return _rendered(
        "page.html.jinja",
        report=report,
        name=run.path.name or str(run.path),
        about=facts.about(run),
        tiles=facts.tiles(report, run),
        slices=facts.slices(report),
        bottleneck=facts.bottleneck_words(report),
        cost=spending_words(report.cost) if report.cost else [],
        adaptation=adaptation_words(report.adaptation) if report.adaptation else [],
        tones=SEVERITIES,
        charts=charts_of(report, run, ledger or keep_ledger(run, sessions_of(run))),
        samples=facts.samples_over_time(run),
        corpus=facts.corpus_tables(run),
        config=facts.settings_text(run.config),
        environment=facts.environment_text(run.environment),
    )


def render_comparison(runs: Sequence[tuple[RunView, Report]]) -> str:
    """Return the page of several runs. Whatever comes from them is escaped."""
    views = [run for run, _ in runs]
    names = short_names([run.path for run in views])
    return _rendered(
        "comparison.html.jinja",
        found=compare_runs(runs),
        names=names,
        hues=HUES,
        reports=[(name, report) for name, (_, report) in zip(names, runs, strict=True)],
        stacks=[
            (
                "Step by step",
                "What the runs had learnt at equal steps.",
                over_steps(views, names),
            ),
            (
                "Against the clock",
                "What the runs had learnt after the same time, validations included. Pauses "
                "between two starts of a run do not count.",
                over_time(views, names),
            ),
        ],
    )


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return the last parts of the paths if they tell the runs apart."""
    last = [path.name or str(path) for path in paths]
    return last if len(set(last)) == len(last) else [str(path) for path in paths]


def _rendered(template: str, **values: Any) -> str:
    script = page_script()
    return (
        page_environment()
        .get_template(template)
        .render(
            # Style sheet and script are ours, and their elements take text as it stands.
            css=Markup(page_style()),
            script=Markup(script),
            script_hash=script_hash(script),
            **values,
        )
    )


def coded(text: str) -> Markup:
    """Escape `text`, set what stands between backticks as code, and keep "%" to its number."""
    safe = str(escape(text)).replace(" %", "&nbsp;%")
    return Markup(_CODE.sub(r"<code>\1</code>", safe))


def page_script() -> str:
    """Return the script of the page: the cross-hair."""
    return (_HERE / "page.js").read_text("utf-8")


def page_style() -> str:
    """Return the style sheet of the page."""
    return (_HERE / "page.css").read_text("utf-8")


def script_hash(script: str) -> str:
    """Return what a Content-Security-Policy calls a script by."""
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


def page_environment(*directories: Path) -> Environment:
    """Return the environment of the page's templates, and of those in other directories."""
    environment = Environment(
        loader=FileSystemLoader([_HERE, *directories]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(coded=coded, tone=tone, spaced=spaced, spoken=spoken)
    return environment


def render_json(report: Report) -> str:
    """Return the report as JSON, format 1."""
    text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    return printable_json(text) + "\n"


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
