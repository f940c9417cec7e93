"""The command line: one file per verb, imported only when somebody uses the verb."""

import importlib
import os
import sys
import time

import click

from unisono import __version__
from unisono.errors import PeerFailedError, UnisonoError
from unisono.exit_codes import BAD_SETTINGS, DONE, INTERRUPTED

VERBS = {
    "demo": "train, score, translate and explain a model on the built-in corpus",
    "corpora": "list the known corpora, or download one",
    "prepare": "turn raw text into a corpus",
    "show": "describe a corpus, run, checkpoint or bundle",
    "check": "measure the machines for a minute and predict what a run will take on them",
    "train": "train a model in one process, or under torchrun in several",
    "launch": "start training in several processes, on one machine or many",
    "lab": "simulate several machines on this one, with links as slow as you like",
    "simulate": "estimate what a run takes on machines you do not have",
    "watch": "show how a run is doing while it trains",
    "average": "average checkpoints into a bundle",
    "report": "answer eleven questions about a run",
    "compare": "show runs side by side",
    "import": "read the runs and settings of other trainers",
    "translate": "translate standard input to standard output",
    "score": "compute BLEU of a translation",
}
MODULES = {"import": "import_runs"}  # `import` is a keyword of Python
# Launchers end all processes when one ends: the one that can say why has to come first.
PEER_FAILED_SECONDS = 0.5


class Verbs(click.Group):
    """A group of commands that imports each one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which a person needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
        if cmd_name not in VERBS:
            return None
        name = MODULES.get(cmd_name, cmd_name)
        command = getattr(importlib.import_module(f"unisono.cli.{name}"), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["--help"]})
@click.version_option(__version__, prog_name="unisono")
def unisono() -> None:
    """Train translation models on one machine or many, and know the truth about every run."""


def main() -> None:
    """Run the command line; show errors that a user can act on without a traceback."""
    # torch and Unisono divide the cores themselves; threads of OpenBLAS would compete.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _leave(_run())


def _run() -> int:
    try:
        unisono(standalone_mode=False)
    except UnisonoError as error:
        if isinstance(error, PeerFailedError):
            time.sleep(PEER_FAILED_SECONDS)
        else:
            print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except click.exceptions.Abort:
        print("stopped by Ctrl-C; the same command continues or starts over", file=sys.stderr)
        return INTERRUPTED
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return BAD_SETTINGS
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DONE
    except BrokenPipeError:  # `unisono … | head`: the reader has left
        sys.stderr.close()
    return DONE


def _leave(code: int) -> None:
    """End the process with `code`; all files are written and closed by now.

    A process of a group ends at once: a thread of the backend may still hold one of our
    callbacks and wait for the interpreter, and would abort the process as Python shuts down.
    """
    if "torch.distributed" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        os._exit(code)
    sys.exit(code)
