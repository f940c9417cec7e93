"""OpenSeq2Seq's learning-rate policies as schedules of ours."""

Schedule = tuple[dict[str, object], list[str], str]
NONE: Schedule = ({}, [], "")
LARGEST = 10**12


def schedule_of(policy: str, settings: dict[str, object]) -> Schedule:
    """Return our schedule, which of `settings` it holds, and a remark; empty if none fits."""
    numbers = {
        name: float(value)
        for name, value in settings.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= LARGEST
    }
    made = {
        "transformer_policy": _transformer,
        "fixed_lr": _fixed,
        "poly_decay": _line,
    }.get(policy)
    try:
        return made(numbers) if made else NONE
    except KeyError:
        return NONE  # a number that it needs cannot be read


def _transformer(numbers: dict[str, float]) -> Schedule:
    scale = numbers["learning_rate"] * numbers.get("coefficient", 1.0)
    if not scale or numbers["d_model"] < 1:
        return NONE
    table: dict[str, object] = {
        "name": "transformer",
        "scale": scale,
        "warmup_steps": int(numbers["warmup_steps"]),
        "d_model": int(numbers["d_model"]),
    }
    note = "OpenSeq2Seq counts updates from 0 and adds 1, so the rate of an update is the same"
    return table, ["learning_rate", "coefficient", "warmup_steps", "d_model"], note


def _fixed(numbers: dict[str, float]) -> Schedule:
    table: dict[str, object] = {"name": "constant", "peak": numbers["learning_rate"]}
    return table, ["learning_rate"], ""


def _line(numbers: dict[str, float]) -> Schedule:
    """A polynomial of the first degree; ours has no other, and begins after the warm-up."""
    warmup = int(numbers.get("warmup_steps", 0))
    if numbers.get("power", 1.0) != 1.0 or numbers.get("begin_decay_at", 0) > warmup:
        return NONE
    table: dict[str, object] = {
        "name": "linear",
        "peak": numbers["learning_rate"],
        "warmup_steps": warmup,
        "total_steps": warmup + int(numbers["decay_steps"]),
        "floor": numbers.get("min_lr", 0.0),
    }
    names = [
        "learning_rate",
        "power",
        "begin_decay_at",
        "warmup_steps",
        "decay_steps",
        "min_lr",
    ]
    return table, names, ""
