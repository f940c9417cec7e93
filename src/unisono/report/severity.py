"""What is good news, what is bad, and how ids and causes read."""

from unisono.diagnose.report import Answer

CAUSES = {
    "compute": "arithmetic",
    "network": "exchange",
    "straggler": "waiting for a late process",
    "data": "waiting for data",
    "evaluation": "validation and test",
    "checkpoint": "checkpoints",
    "other": "other, and starting up",
}

SEVERITIES = {"info": "plain", "warning": "care", "error": "bad"}

_TONES = {
    "duration": {"finished": "good", "stopped": "care", "failed": "bad", "running": "plain"},
    "trained": {"yes": "good", "no": "care", "diverged": "bad"},
    "overfitting": {"yes": "bad", "no": "good"},
    "devices": {"busy": "good", "waiting": "bad"},
    "network": {"bottleneck": "bad", "not_bottleneck": "good"},
}


def tone(answer: Answer) -> str:
    """Return good, bad, care, plain or unknown: how a verdict is shown."""
    if answer.verdict == "unknown":
        return "unknown"
    return _TONES.get(answer.id, {}).get(answer.verdict, "plain")


def spaced(name: str) -> str:
    """Write an id as words: "not_used" as "not used"."""
    return name.replace("_", " ")
