"""Being asked to stop (SIGTERM, Ctrl-C) or to save now (SIGUSR1)."""

import os
import signal
import socket
import threading
from types import FrameType, TracebackType

STOPS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Notes what was asked for; a second SIGTERM or Ctrl-C ends the process at once.

    Python runs its handlers between two of its own instructions, so never while the process
    waits for the others inside of the backend. The second signal is therefore seen by a
    thread, to which the kernel's handler writes a byte.
    """

    def __init__(self) -> None:
        self.stop = False
        self._save = False
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "Signals":
        hears, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        threading.Thread(target=_end_at_second, args=(hears,), daemon=True).start()
        for number in STOPS:
            self._before[number] = signal.signal(number, self._note_stop)
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._note_save)
        self._wakeup_before = signal.set_wakeup_fd(
            self._bell.fileno(), warn_on_full_buffer=False
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._bell.close()

    def take_save(self) -> bool:
        """Return whether a save was asked for since the last time this was called."""
        wanted, self._save = self._save, False
        return wanted

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True

    def _note_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True


def _end_at_second(hears: socket.socket) -> None:
    stops = 0
    with hears:
        while numbers := hears.recv(64):
            stops += sum(number in STOPS for number in numbers)
            if stops > 1:
                os._exit(128 + numbers[-1])
