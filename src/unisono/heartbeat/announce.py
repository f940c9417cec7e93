"""What a watchman says on its machine's terminal and writes down.

The library does not print; this is the exception. Those for whom a watchman speaks are dead,
or wait inside of the backend and cannot speak.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unisono.exit_codes import RESTARTABLE
from unisono.heartbeat.messages import GroupMember, Loss, SidecarConfig
from unisono.jsonl import LineWriter
from unisono.records.events import Lost, to_line
from unisono.records.layout import RunDirectory
from unisono.records.status import Status, write_status


def sentence(member: GroupMember, loss: Loss) -> str:
    """Return in words who is lost, and how."""
    return f"{member}: {loss.how}" + (f" ({loss.detail})" if loss.detail else "")


class Announcer:
    """Speaks for one rank: on the terminal only if it is the first of its machine."""

    def __init__(self, orders: SidecarConfig) -> None:
        self._orders = orders
        self._speaks = orders.me.local_rank == 0

    def announce(self, lost: Sequence[Loss], step: int) -> None:
        """Say and record who is lost and what happens now."""
        for loss in lost:
            member = self._orders.members[loss.rank]
            self._say(f"lost: {sentence(member, loss)}; {self._orders.then}")
            with suppress(OSError):
                self._record(member, loss, step)

    def say_unwatched(self, members: Sequence[GroupMember]) -> None:
        """Say whom no call ever came from, and what that means."""
        names = ", ".join(str(member) for member in members)
        place = f"{self._orders.address}:{self._orders.port}"
        self._say(
            f"warning: {names} cannot be watched: no call got through to {place}, where rank "
            "0's watchman listens; is there a firewall? The time limits still hold"
        )

    def fall_silent(self) -> None:
        """Let go of the terminal: whoever reads it need not wait for us."""
        self._speaks = False
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 2)

    def _say(self, text: str) -> None:
        if self._speaks:
            with suppress(OSError):
                os.write(2, f"{text}\n".encode())

    def _record(self, member: GroupMember, loss: Loss, step: int) -> None:
        directory = RunDirectory(Path(self._orders.run))
        record_loss(directory, self._orders.rank, member, loss.how, loss.detail, step)
        if self._orders.rank == 0 and directory.config.is_file():
            words = sentence(member, loss)
            status = Status(state="lost", step=step, exit_code=RESTARTABLE, message=words)
            write_status(directory, status)


def record_loss(
    directory: RunDirectory, seen_by: int, member: GroupMember, how: str, detail: str, step: int
) -> None:
    """Add to the events of rank `seen_by` that `member` is lost."""
    if not directory.config.is_file():
        return  # the run has not been begun, or its directory is not ours
    event = Lost(
        time=time.time(),
        step=step,
        rank=member.rank,
        host=member.host,
        pid=member.pid,
        how=how,
        detail=detail,
        seen_by=seen_by,
    )
    # The worker writes to the same file, as its watchman does in one call a line; both are on
    # one machine, whose kernel lets nobody in between.
    lines = LineWriter(directory.events(seen_by))
    lines.write(to_line(event))
    lines.close()
