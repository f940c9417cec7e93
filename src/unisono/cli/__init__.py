"""The command line: one file per verb, imported only when somebody uses the verb."""

import importlib
import os
import sys
import time
from typing import TextIO

import click

from unisono import __version__
from unisono.errors import PeerFailedError, UnisonoError, explain
from unisono.exit_codes import BAD_SETTINGS, DONE, FAILED, INTERRUPTED
from unisono.parent_process import die_with_launcher
from unisono.printable import guard_output

VERBS = {
    "demo": "train, score, translate and explain a model on the built-in corpus",
    "corpora": "list the known corpora, or download one",
    "prepare": "turn raw text into a corpus",
    "show": "describe a corpus, run, checkpoint or bundle",
    "check": "measure the machines for a minute and predict what a run will take on them",
    "train": "train a model in one process, or under torchrun in several",
    "selftest": "prove in two minutes that training works here, on CPUs or GPUs",
    "launch": "start training in several processes, on one machine or many",
    "attach": "come back to a run that was launched with --detach",
    "pull": "fetch the records of a run from the machines it was launched on",
    "lab": "simulate several machines on this one, with links as slow as you like",
    "simulate": "estimate what a run takes on machines you do not have",
    "watch": "show how a run is doing while it trains",
    "publish": "tell Prometheus or a web address how runs are doing",
    "average": "average checkpoints into a bundle",
    "report": "answer eleven questions about a run",
    "compare": "show runs side by side",
    "import": "read the runs and settings of other trainers",
    "translate": "translate standard input to standard output",
    "score": "compute BLEU, chrF and TER of a translation, or compare two",
    "export": "write a model for another engine, and prove that it translates as before",
    "serve": "serve models over HTTP: a web page, and LibreTranslate's protocol",
    "completion": "let bash, zsh or fish complete commands and options",
}
# Verbs whose module is not named after them, or not in this package.
MODULES = {
    "import": "runs.import_runs",  # `import` is a keyword of Python
    "selftest-part": "launching.selftest_part",
    **{
        verb: f"runs.{verb}"
        for verb in (
            "show",
            "watch",
            "publish",
            "average",
            "report",
            "compare",
            "pull",
            "attach",
        )
    },
}
HIDDEN_VERBS = ("selftest-part",)  # what other verbs start
# Launchers end all processes when one ends: the one that can say why has to come first.
PEER_FAILED_SECONDS = 0.5


class Verbs(click.Group):
    """A group of commands that imports each one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which a person needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS and cmd_name not in HIDDEN_VERBS:
            return None
        path = MODULES.get(cmd_name, cmd_name)
        module = importlib.import_module(f"unisono.cli.{path}")
        command = getattr(module, path.rpartition(".")[2])
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
    die_with_launcher()  # before anything that takes time
    # torch and Unisono divide the cores themselves; threads of OpenBLAS would compete.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guard_output()
    _leave(_run())


def _run() -> int:
    try:
        return _run_verb()
    except BrokenPipeError:  # `unisono … | head`: the reader has left
        sys.stderr.close()
        return DONE
    except (OSError, MemoryError, ImportError, RuntimeError) as error:
        if (refused := explain(error)) is None:
            raise
        print(f"error: {refused}", file=sys.stderr)
        return refused.exit_code


def _run_verb() -> int:
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
        error.show(sys.stderr)
        return BAD_SETTINGS
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DONE
    return DONE


def _leave(code: int) -> None:
    """End the process with `code`, or with 1 if its output cannot be written.

    A process of a group ends at once: a thread of the backend may still hold one of our
    callbacks and wait for the interpreter, and would abort the process as Python shuts down.
    """
    for stream in (sys.stdout, sys.stderr):
        code = code or _flushed(stream)
    if "torch.distributed" in sys.modules:
        os._exit(code)
    sys.exit(code)


def _flushed(stream: TextIO) -> int:
    """Force out what was written and return the exit code for how that went."""
    if stream.closed:
        return DONE
    try:
        stream.flush()
    except (UnisonoError, BrokenPipeError) as error:
        # Python would try again as it ends, fail again, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(error, UnisonoError):
            print(f"error: {error}", file=sys.stderr)
            return FAILED
    return DONE
