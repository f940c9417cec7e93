"""What a sidecar prints on its machine's terminal, and records in the run directory.

The library does not print; this is the exception. The workers for which a sidecar speaks are
dead, or wait inside the backend and cannot speak.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unisono.exit_codes import RESTARTABLE
from unisono.heartbeat.messages import GroupMember, Loss, SidecarConfig
from unisono.records.events import Lost, to_line
from unisono.records.layout import RunDirectory
from unisono.records.status import Status, write_status
from unisono.small_files import LineWriter


def loss_text(member: GroupMember, loss: Loss) -> str:
    """Return in words who is lost, and how."""
    return f"{member}: {loss.how}" + (f" ({loss.detail})" if loss.detail else "")


class Announcer:
    """Announces losses for one rank; on the terminal only for the first of each machine."""

    def __init__(self, config: SidecarConfig) -> None:
        self._config = config
        self._prints = config.worker.local_rank == 0

    def announce(self, lost: Sequence[Loss], step: int) -> None:
        """Print and record who is lost and what happens now."""
        for loss in lost:
            member = self._config.members[loss.rank]
            self._print(f"lost: {loss_text(member, loss)}; {self._config.then}")
            with suppress(OSError):
                self._record(member, loss, step)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._print(f"warning: {text}")

    def warn_without_heartbeat(self, members: Sequence[GroupMember]) -> None:
        """Warn about ranks that never sent a heartbeat, and what that means."""
        names = ", ".join(str(member) for member in members)
        where = self._config.endpoint
        endpoint = where if isinstance(where, str) else f"{where[0]}:{where[1]}"
        self.warn(
            f"no heartbeat between {names} and rank 0 at {endpoint} has got through, "
            "so a loss there cannot be noticed; is there a firewall? The time limits still hold"
        )

    def release_terminal(self) -> None:
        """Close standard error, so that whoever reads it need not wait for this process."""
        self._prints = False
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 2)

    def _print(self, text: str) -> None:
        if self._prints:
            with suppress(OSError):
                os.write(2, f"{text}\n".encode())

    def _record(self, member: GroupMember, loss: Loss, step: int) -> None:
        directory = RunDirectory(Path(self._config.run))
        record_loss(directory, self._config.rank, member, loss.how, loss.detail, step)
        if self._config.rank == 0 and directory.config.is_file():
            text = loss_text(member, loss)
            status = Status(state="lost", step=step, exit_code=RESTARTABLE, message=text)
            write_status(directory, status)


def record_loss(
    directory: RunDirectory, seen_by: int, member: GroupMember, how: str, detail: str, step: int
) -> None:
    """Add the loss of `member` to the events of rank `seen_by`."""
    if not directory.config.is_file():
        return  # the run has not begun, or its directory is not ours
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
    # The worker appends to the same file. Both write whole lines in single calls on one
    # machine, so the kernel never mixes them.
    lines = LineWriter(directory.events(seen_by))
    lines.write(to_line(event))
    lines.close()
