"""`unisono completion`: the script that lets a shell complete our commands and options."""

import click
from click.shell_completion import get_completion_class

PROGRAM, VARIABLE = "unisono", "_UNISONO_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and paths.

    For bash, put `source <(unisono completion bash)` into ~/.bashrc; for zsh, the same with zsh
    into ~/.zshrc, after compinit; for fish, save the script as
    ~/.config/fish/completions/unisono.fish.
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows the shells that are offered"
    group = click.get_current_context().find_root().command
    print(script(group, {}, PROGRAM, VARIABLE).source())
