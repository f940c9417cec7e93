"""The command line: one file a verb, imported only when the verb is used."""

import importlib
import os
import sys
import time

import click

from unisono import __version__
from unisono.errors import DismissedError, UnisonoError

VERBS = {
    "demo": "train, score, translate and explain a model on the built-in corpus",
    "corpora": "list corpora, or get one",
    "prepare": "turn raw text into a corpus",
    "show": "say what a corpus, run, checkpoint or bundle is",
    "check": "measure the machines for a minute and say what a run will take on them",
    "train": "train a model: alone, or under torchrun",
    "launch": "start training on several processes",
    "lab": "try several machines on this one, with links as slow as you like",
    "simulate": "say on paper what a run takes on machines one does not have",
    "watch": "see how a run is doing while it goes on",
    "average": "average checkpoints into a bundle",
    "report": "answer the eleven questions about a run",
    "compare": "put runs side by side",
    "import": "read runs and settings of other trainers",
    "translate": "translate standard input to standard output",
    "score": "compute BLEU of a translation",
}
FILES = {"import": "import_runs"}  # a word that Python keeps for itself
DISMISSED_SECONDS = 0.5  # launchers end all when one ends: whoever knows why goes first


class Verbs(click.Group):
    """A group that knows its commands by name and imports them when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order a person needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
        if cmd_name not in VERBS:
            return None
        name = FILES.get(cmd_name, cmd_name)
        command = getattr(importlib.import_module(f"unisono.cli.{name}"), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["--help"]})
@click.version_option(__version__, prog_name="unisono")
def unisono() -> None:
    """Train translation models on one machine or many, and know the truth about every run."""


def main() -> None:
    """Run the command line; errors a user can act on are shown without a traceback."""
    # Threads are torch's business, and ours: those of a second library get in their way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _leave(_run())


def _run() -> int:
    try:
        unisono(standalone_mode=False)
    except UnisonoError as error:
        if isinstance(error, DismissedError):
            time.sleep(DISMISSED_SECONDS)
        else:
            print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except click.exceptions.Abort:
        print("stopped by Ctrl-C; the same command goes on or starts over", file=sys.stderr)
        return 130
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:  # `unisono … | head`: the reader has had enough
        sys.stderr.close()
    return 0


def _leave(code: int) -> None:
    """End the process with `code`; everything is written and closed by now.

    If it talked to others, at once: a thread of the backend that still holds a callback of
    ours waits for the interpreter, and while the interpreter ends that aborts the process.
    """
    if "torch.distributed" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        os._exit(code)
    sys.exit(code)
