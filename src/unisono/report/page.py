"""The report as one page of HTML: one small script of ours, nothing from elsewhere."""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from unisono.diagnose.ledger import Ledger, keep_ledger
from unisono.diagnose.report import Report
from unisono.diagnose.sessions import sessions_of
from unisono.records.view import RunView
from unisono.report import facts
from unisono.report.charts import charts_of
from unisono.report.parts import spoken
from unisono.report.tones import SEVERITIES, spaced, tone

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def render_html(report: Report, run: RunView, ledger: Ledger | None = None) -> str:
    """Return the page. Whatever comes from the run is escaped.

    `ledger` spares the time to keep it again.
    """
    script = (_HERE / "page.js").read_text("utf-8")
    template = _environment().get_template("page.html.jinja")
    return template.render(
        report=report,
        name=run.path.name or str(run.path),
        # Style sheet and script are ours, and their elements take text as it stands.
        css=Markup((_HERE / "page.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
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
