"""`unisono score`: how good translations are, and which of two systems is better."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unisono.cli.options import PathType
from unisono.errors import ConfigError
from unisono.score.external import ExternalMetric
from unisono.score.files import aligned_sentences
from unisono.score.metrics import METRICS, Metric, Score, score_by
from unisono.score.paired import Comparison, compare, disagreement


@click.command()
@click.argument(
    "texts", type=PathType, nargs=-1, required=True, metavar="TRANSLATION... [REFERENCE]"
)
@click.option(
    "--against",
    type=PathType,
    metavar="REFERENCE",
    help="The reference; all other files are then translations, two of them to compare.",
)
@click.option("--source", type=PathType, help="The source text, for --with and --model.")
@click.option(
    "--with",
    "command",
    metavar="COMMAND",
    help="Also score by COMMAND, which reads lines of source, translation and reference with "
    "tabs between, and writes a number a line; higher is better.",
)
@click.option(
    "--model",
    type=PathType,
    help="Score by this model (a bundle or a finished run): its log-probability of each "
    "translation of --source. Needs no reference.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def score(
    texts: tuple[Path, ...],
    against: Path | None,
    source: Path | None,
    command: str | None,
    model: Path | None,
    as_json: bool,
) -> None:
    """Score TRANSLATION against REFERENCE: BLEU, chrF and TER, by sacreBLEU's definitions.

    All are cased and detokenised but TER, which sacreBLEU lower-cases; for TER, less is
    better. The number after ± is half of the 95 % confidence interval, by bootstrap
    resampling. Two translations and --against compare systems A and B by paired bootstrap.
    Files may be compressed (.gz, .bz2, .xz, .zst).
    """
    if model is not None:
        _score_by_model(model, texts, source, as_json)
        return
    systems, reference = (texts, against) if against else (texts[:-1], texts[-1])
    if len(systems) not in (1, 2):
        raise ConfigError(
            f"{len(systems)} translations and one reference",
            where="unisono score",
            fix="score one translation, or compare two: unisono score A B --against REFERENCE",
        )
    *found, expected = aligned_sentences([*systems, reference])
    metrics = [*METRICS.values(), *_external(command, source, reference)]
    if len(systems) == 1:
        _print_scores([score_by(metric, found[0], expected) for metric in metrics], as_json)
    else:
        _print_comparison([compare(m, found[0], found[1], expected) for m in metrics], as_json)


def _external(command: str | None, source: Path | None, reference: Path) -> list[Metric]:
    if command is None:
        return []
    sources, _ = aligned_sentences([_needed(source, "--with"), reference])
    return [ExternalMetric(command).metric(sources)]


def _needed(source: Path | None, option: str) -> Path:
    if source is None:
        raise ConfigError(
            f"{option} needs the source text", where=option, fix="add --source FILE"
        )
    return source


def _print_scores(scores: list[Score], as_json: bool) -> None:
    if as_json:
        bleu, *others = scores
        # BLEU came first, alone, and keeps its keys.
        result: dict[str, Any] = {"bleu": bleu.score, "low": bleu.low, "high": bleu.high}
        rest = {score.metric.lower(): asdict(score) for score in others}
        print(json.dumps({**result, "signature": bleu.signature, **rest}))
        return
    for one in scores:
        print(f"{one.metric} {one.score:.2f} ± {(one.high - one.low) / 2:.2f}  {one.signature}")


def _print_comparison(comparisons: list[Comparison], as_json: bool) -> None:
    disagree = disagreement(comparisons)
    if as_json:
        rows = [
            {**asdict(c), "difference": c.difference, "better": c.better, "says": c.sentence}
            for c in comparisons
        ]
        print(json.dumps({"metrics": rows, "disagreement": disagree}))
        return
    for c in comparisons:
        print(
            f"{c.metric:5} A {c.first:6.2f}  B {c.second:6.2f}  B - A {c.difference:+.2f} "
            f"[{c.low:+.2f}, {c.high:+.2f}]  p {c.p:.3f}  {c.sentence}"
        )
    if disagree:
        print(disagree)


def _score_by_model(
    model: Path, texts: tuple[Path, ...], source: Path | None, as_json: bool
) -> None:
    from unisono.bundle.format import bundle_at
    from unisono.bundle.reader import open_bundle

    if len(texts) != 1:
        raise ConfigError(
            f"--model scores one translation, and there are {len(texts)} files",
            where="--model",
            fix="unisono score TRANSLATION --model RUN --source SOURCE",
        )
    sources, translations = aligned_sentences([_needed(source, "--model"), texts[0]])
    translator = open_bundle(bundle_at(model)).translator()
    found = translator.score_given(sources, translations)
    pieces = sum(one.pieces for one in found)
    total = sum(one.log_probability for one in found)
    mean = total / pieces
    if as_json:
        lines = [asdict(one) for one in found]
        print(json.dumps({"log_probability_per_piece": mean, "pieces": pieces, "lines": lines}))
        return
    for one in found:
        print(f"{one.log_probability:.4f}\t{one.pieces}")
    click.echo(f"note: {mean:.4f} per piece over {pieces:,} pieces", err=True)
