"""The machines a user names: `a,b:2`."""

import re
from dataclasses import dataclass

from unisono.errors import ConfigError

MOST_SLOTS = 1024
# A name that begins with a dash would be an option of ssh.
_HOST = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_][\w.-]*", re.ASCII)
WHERE = "--hosts"


@dataclass(frozen=True)
class Host:
    """A machine as ssh knows it, and how many processes train there."""

    name: str
    slots: int


def parse_hosts(text: str, slots: int) -> tuple[Host, ...]:
    """Read `a,b:2`; a machine without a number gets `slots` processes."""
    hosts = tuple(_parse(word.strip(), slots) for word in text.split(","))
    names = [host.name for host in hosts]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"{name} is named {names.count(name)} times",
                where=WHERE,
                fix=f"for two processes there write {name}:2",
            )
    return hosts


def _parse(word: str, slots: int) -> Host:
    name, colon, number = word.partition(":")
    if _HOST.fullmatch(name) is None:
        raise ConfigError(
            f'"{name}" is not the name of a machine',
            where=WHERE,
            fix="write --hosts a,b or --hosts a:2,b:2; a machine with a stranger name or an "
            "IPv6 address needs an entry with a plain name in ~/.ssh/config",
        )
    if not colon:
        return Host(name, slots)
    digits = number.isascii() and number.isdecimal()
    if not digits or not 1 <= int(number) <= MOST_SLOTS:
        raise ConfigError(
            f'"{number}" is not a number of processes',
            where=f"{WHERE} {word}",
            fix=f"write {name}:2 for two; ports belong into ~/.ssh/config",
        )
    return Host(name, int(number))
