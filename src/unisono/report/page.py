"""A run, or several, as one page of HTML: one small script of ours, nothing from elsewhere."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from unisono.diagnose.evidence.ledger import Ledger, keep_ledger
from unisono.diagnose.evidence.sessions import sessions_of
from unisono.diagnose.report import Report
from unisono.records.view import RunView
from unisono.report import facts
from unisono.report.charts import charts_of
from unisono.report.comparison import compare_runs
from unisono.report.comparison_panels import HUES, over_steps, over_time
from unisono.report.parts import spoken
from unisono.report.tones import SEVERITIES, spaced, tone

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def render_html(report: Report, run: RunView, ledger: Ledger | None = None) -> str:
    """Return the page. Whatever comes from the run is escaped.

    `ledger` spares the time to keep it again.
    """
    return _rendered(
        "page.html.jinja",
        report=report,
        name=run.path.name or str(run.path),
        about=facts.about(run),
        tiles=facts.tiles(report, run),
        slices=facts.slices(report),
        bottleneck=facts.bottleneck_words(report),
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
    names = _short([run.path for run in views])
    return _rendered(
        "comparison.html.jinja",
        found=compare_runs(runs),
        names=names,
        hues=HUES,
        reports=[(name, report) for name, (_, report) in zip(names, runs, strict=True)],
        stacks=[
            ("Step by step", "What was learnt at equal steps.", over_steps(views, names)),
            (
                "Against the clock",
                "What was learnt after equal time, validations included. Pauses between two "
                "starts of a run do not count.",
                over_time(views, names),
            ),
        ],
    )


def _short(paths: Sequence[Path]) -> list[str]:
    """Return the last parts of the paths if they tell the runs apart."""
    last = [path.name or str(path) for path in paths]
    return last if len(set(last)) == len(last) else [str(path) for path in paths]


def _rendered(template: str, **values: Any) -> str:
    script = (_HERE / "page.js").read_text("utf-8")
    return (
        _environment()
        .get_template(template)
        .render(
            # Style sheet and script are ours, and their elements take text as it stands.
            css=Markup((_HERE / "page.css").read_text("utf-8")),
            script=Markup(script),
            script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            **values,
        )
    )


def coded(text: str) -> Markup:
    """Escape `text`, set what stands between backticks as code, and keep "%" to its number."""
    safe = str(escape(text)).replace(" %", "&nbsp;%")
    return Markup(_CODE.sub(r"<code>\1</code>", safe))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(coded=coded, tone=tone, spaced=spaced, spoken=spoken)
    return environment
