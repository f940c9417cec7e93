"""`unisono import`: read the runs and settings of other trainers."""

import sys
from pathlib import Path
from typing import Any

import click

from unisono.cli.options import PathType
from unisono.errors import ConfigError, DataError
from unisono.printable import printable
from unisono.units import BIT_UNITS, amount

TO_RUN = click.option("--to", type=PathType, required=True, help="The run directory to write.")
FACTS = (
    click.option(
        "--processes",
        default=0,
        type=click.IntRange(0),
        help="The number of processes, if the records do not contain it.",
    ),
    click.option(
        "--machines",
        default=0,
        type=click.IntRange(0),
        help="The number of machines, if the records do not contain it.",
    ),
    click.option(
        "--parameters",
        default=0,
        type=click.IntRange(0),
        help="The size of the model, if the records do not contain it.",
    ),
    click.option(
        "--link",
        default="",
        metavar="RATE",
        help="The rated speed of the link between the machines, such as 1gbit.",
    ),
    click.option("--measured", is_flag=True, help="The speed given with --link was measured."),
)


def _with_facts(command: Any) -> Any:
    for option in reversed(FACTS):
        command = option(command)
    return command


@click.group("import")
def import_runs() -> None:
    """Turn runs of other trainers into run directories that `report` can read.

    What their records do not contain stays unknown. Nothing is overwritten.
    """


@import_runs.command()
@click.argument("log", type=PathType)
@TO_RUN
@click.option(
    "--run",
    "number",
    default=0,
    type=click.IntRange(0),
    help="Which run, if the log holds several; the last one by default.",
)
@_with_facts
def openseq2seq(log: Path, to: Path, number: int, **facts: Any) -> None:
    """Import a run from a log of OpenSeq2Seq.

    LOG is the file that its output went to, such as nohup.out or nohup.out.gz.
    """
    from unisono.importers.imported_run import check_free, write_run
    from unisono.importers.openseq2seq.build import read_openseq2seq

    given = _user_facts(facts)
    check_free(to)
    run = read_openseq2seq(log, given, number)
    write_run(run, to)
    _say(to, run.about.notes)


@import_runs.command()
@click.argument("directory", type=PathType)
@TO_RUN
@_with_facts
def tensorboard(directory: Path, to: Path, **facts: Any) -> None:
    """Import a run from the event files in DIRECTORY.

    It knows the tags of Hugging Face, fairseq, OpenNMT-py, Eole and Unisono.
    """
    from unisono.importers.imported_run import check_free, write_run
    from unisono.importers.tensorboard.build import read_tensorboard

    given = _user_facts(facts)
    check_free(to)
    run = read_tensorboard(directory, given)
    write_run(run, to)
    _say(to, run.about.notes)


@import_runs.command()
@click.argument("source", metavar="FILE.py", type=PathType)
@click.option("--to", type=PathType, required=True, help="The TOML file to write.")
@click.option(
    "--processes",
    default=0,
    type=click.IntRange(0),
    help="The number of GPUs that shared an update.",
)
def config(source: Path, to: Path, processes: int) -> None:
    """Convert settings of OpenSeq2Seq to TOML. FILE.py is parsed, never executed."""
    from unisono.importers.openseq2seq.build import read_settings, to_toml

    if to.exists() or to.is_symlink():
        raise DataError(f"{to} exists already", where="--to", fix="choose another name")
    made = read_settings(source, processes)
    text = to_toml(made, source.name)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise DataError(f"{to} cannot be written: {error.strerror}", where="--to") from error
    for entry in made.left:
        print(f"not converted: {printable(entry)}", file=sys.stderr)
    print(to)


@import_runs.command()
@click.argument("source", metavar="DIRECTORY", type=PathType)
@click.option("--to", type=PathType, required=True, help="The bundle to write.")
@click.option("--source-language", default="", help="Its name, if DIRECTORY does not say it.")
@click.option("--target-language", default="", help="Its name, if DIRECTORY does not say it.")
def model(source: Path, to: Path, source_language: str, target_language: str) -> None:
    """Turn a Marian or Pegasus model of Hugging Face into a bundle (safetensors only)."""
    from unisono.bundle.huggingface import import_model

    if to.exists() or to.is_symlink():
        raise DataError(f"{to} exists already", where="--to", fix="choose another name")
    import_model(source, to, (source_language, target_language))
    print(to)
    print(f"next: unisono translate --model {to}", file=sys.stderr)


def _user_facts(facts: dict[str, Any]) -> Any:
    from unisono.importers.imported_run import UserFacts

    if facts["measured"] and not facts["link"]:
        raise ConfigError(
            "--measured needs the speed that was measured",
            where="--measured",
            fix="give it with --link, such as --link 940mbit",
        )
    rate = amount(facts["link"], BIT_UNITS, "--link", '"1gbit"') if facts["link"] else 0.0
    return UserFacts(
        processes=facts["processes"],
        machines=facts["machines"],
        parameters=facts["parameters"],
        link_bits_per_second=rate,
        link_measured=facts["measured"],
    )


def _say(to: Path, notes: tuple[str, ...]) -> None:
    for note in notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    print(to)
    print(f"next: unisono report {to}", file=sys.stderr)
