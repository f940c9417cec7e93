"""The page of all commands, generated from the commands themselves by `make docs`."""

import click

from unisono.cli import VERBS, unisono

HEAD = """# Commands

*For everyone who looks up an option: every command with its help text.*

`make docs` generates this page from the code. Commands write results to standard output and
messages to standard error. Exit codes: 0 done, 1 something was found or failed, 2 bad
settings, 3 bad data, 4 the run broke, 75 stopped by a signal with everything saved, 130
stopped by Ctrl-C.
"""


def reference() -> str:
    """Return the page of all commands."""
    context = click.Context(unisono, info_name="unisono")
    pages = [HEAD]
    for verb in VERBS:
        command = unisono.get_command(context, verb)
        if command is not None:
            pages += _pages(command, f"unisono {verb}")
    return "\n".join(pages)


def _pages(command: click.Command, name: str) -> list[str]:
    context = click.Context(command, info_name=name, terminal_width=90)
    page = f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"
    if not isinstance(command, click.Group):
        return [page]
    inner = [_pages(sub, f"{name} {key}") for key, sub in command.commands.items()]
    return [page, *(text for pages in inner for text in pages)]


if __name__ == "__main__":
    print(reference(), end="")
