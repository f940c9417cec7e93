"""torchrun, ending as its workers did."""

import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousError
from torch.distributed.run import parse_args, run

from unisono.comm.join import die_with_parent
from unisono.comm.rendezvous import prepare_rendezvous
from unisono.comm.waiting import Tell, say_nothing
from unisono.errors import LostError, RunError
from unisono.exit_codes import RESTARTABLE


@dataclass(frozen=True)
class Outcome:
    """How the workers ended: an exit code, and in words what the first to fail died of.

    A worker that ended by itself has said why; then there are no words.
    """

    exit_code: int = 0
    death: str = ""


def run_agent(arguments: Sequence[str], tell: Tell = say_nothing) -> Outcome:
    """Run torchrun with `arguments` to its end; its own traceback and summary stay unsaid.

    While machines are missing, `tell` is told which and what to check.
    """
    die_with_parent()
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    options = parse_args(list(arguments))
    kept = prepare_rendezvous(options, tell)
    try:
        run(options)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode > 0:
            return Outcome(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        return Outcome(RESTARTABLE, f"process {rank} (pid {failure.pid}) was killed by {name}")
    except SignalException as caught:
        return Outcome(128 + caught.sigval)
    except RendezvousConnectionError as error:
        raise LostError(
            "the store of torchrun is gone, and with it the machine or the agent that held it",
            fix="see what happened there; the same command continues from the last "
            "checkpoint, if there is one yet",
        ) from error
    except RendezvousError as error:
        raise RunError(
            f"the machines did not come together: {error}",
            where=f"torchrun --nnodes={options.nnodes} at {options.rdzv_endpoint}",
            fix="see whether training runs on all of them, and that their clocks agree",
        ) from error
    finally:
        if kept:
            kept.close()
    return Outcome()
