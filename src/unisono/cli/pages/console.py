"""A console of rich that shows control characters in texts and obeys only its own."""

from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.segment import Segment

from unisono.printable import LAYOUT, printable, styled


class PrintableConsole(Console):
    """A console on `file`, which may be filtered; what it renders is filtered here."""

    def __init__(self, file: TextIO, **options: Any) -> None:
        super().__init__(file=styled(file), **options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            part if part.control else Segment(printable(part.text, LAYOUT), part.style)
            for part in buffer
        )
