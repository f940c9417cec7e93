"""Being asked to stop (SIGTERM, Ctrl-C) or to save now (SIGUSR1)."""

import signal
from types import FrameType, TracebackType


class Signals:
    """Notes what was asked for; a second SIGTERM or Ctrl-C ends the process at once."""

    def __init__(self) -> None:
        self.stop = False
        self._save = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Signals":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note_stop)
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._note_save)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def take_save(self) -> bool:
        """Return whether a save was asked for since the last time this was called."""
        wanted, self._save = self._save, False
        return wanted

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True
        for either in (signal.SIGTERM, signal.SIGINT):
            signal.signal(either, signal.SIG_DFL)

    def _note_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True
