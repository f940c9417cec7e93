"""Values of foreign settings: literals, names of things, and what is unreadable."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """Something that is known by its name alone, such as `tf.float32` or a class."""

    name: str

    @property
    def last(self) -> str:
        """Return the name without the modules it is in."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Unreadable:
    """A value that only running the file would tell. `why` says so in words."""

    why: str


@dataclass(frozen=True)
class Parameters:
    """OpenSeq2Seq's parameters, those for training, for validation and for the test."""

    train: dict[str, object]
    valid: dict[str, object]
    test: dict[str, object]


def merged(base: dict[str, object], more: dict[str, object]) -> dict[str, object]:
    """Return `base` with `more` put over it, table by table, as OpenSeq2Seq does."""
    result = dict(base)
    for key, value in more.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def inner(table: dict[str, object], name: str) -> dict[str, object]:
    """Return the table `name` within `table`, empty if there is none."""
    value = table.get(name)
    return value if isinstance(value, dict) else {}
