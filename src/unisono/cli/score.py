"""`unisono score`: BLEU of a translation."""

import json
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.score import score_files


@click.command()
@click.argument("translation", type=PathType)
@click.argument("reference", type=PathType)
@click.option("--json", "as_json", is_flag=True, help="Print the score as JSON.")
def score(translation: Path, reference: Path, as_json: bool) -> None:
    """Compute the BLEU of TRANSLATION against REFERENCE, cased and detokenised, by sacreBLEU.

    The number after ± is half of the 95 % confidence interval, by bootstrap resampling.
    """
    bleu = score_files(translation, reference)
    if as_json:
        result = {"bleu": bleu.score, "low": bleu.low, "high": bleu.high}
        print(json.dumps({**result, "signature": bleu.signature}))
    else:
        print(f"BLEU {bleu.score:.2f} ± {(bleu.high - bleu.low) / 2:.2f}  {bleu.signature}")
