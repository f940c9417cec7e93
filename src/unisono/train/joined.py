"""The processes that a launcher started with this one, until the end of the block."""

from collections.abc import Iterator
from contextlib import contextmanager

from unisono.comm.bootstrap.join import join
from unisono.comm.protocol import Comm
from unisono.comm.waiting import Tell, how_contact_was_lost
from unisono.config.settings import Settings
from unisono.errors import LostError
from unisono.units import seconds_of


@contextmanager
def joined(settings: Settings, timeout_seconds: float, tell: Tell) -> Iterator[Comm]:
    """Join the others, or stand alone; `tell` is told what the start waits for.

    Losing contact with one of them is an error that says so.
    """
    comm = join(
        settings.device,
        timeout_seconds,
        start_seconds=seconds_of(settings.sync.start_timeout),
        interface=settings.sync.interface,
        tell=tell,
    )
    try:
        yield comm
    except RuntimeError as error:
        how = how_contact_was_lost(error)
        if not how:
            raise
        raise LostError(
            f"process {comm.world.rank} lost contact with another: {how}"
        ) from error
    finally:
        comm.close()
