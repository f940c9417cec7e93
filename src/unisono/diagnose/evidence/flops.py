"""How much arithmetic the updates took, and at what rate it was done."""

import msgspec

from unisono.cost_model.devices import DEVICES, Device
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.corpus_facts import corpus_facts
from unisono.models.settings import TransformerSettings, training_flops


def flops_per_update(case: Case) -> float | None:
    """Return the floating-point operations of a mean update; None if the model is unknown."""
    facts, steps = corpus_facts(case.run.corpus), case.run.steps
    sentences = sum(step.sentences for step in steps)
    tokens = sum(step.source_tokens + step.target_tokens for step in steps)
    if facts is None or not facts.vocabulary or not sentences or not tokens:
        return None
    try:
        settings = msgspec.convert(case.run.config.get("model"), TransformerSettings)
    except msgspec.ValidationError:
        return None
    padded = sum(step.positions for step in steps) / tokens
    source = padded * sum(step.source_tokens for step in steps) / sentences
    target = padded * sum(step.target_tokens for step in steps) / sentences
    return training_flops(settings, facts.vocabulary, sentences, source, target) / len(steps)


def flops_per_second(case: Case) -> float | None:
    """Return what each process achieved of them over whole updates."""
    each = flops_per_update(case)
    if each is None or not case.ledger.mean_step or not case.size:
        return None
    return each / case.ledger.mean_step / case.size


def known_device(case: Case) -> Device | None:
    """Return the data sheet of the run's GPUs, if there is one."""
    if not any(start.device.startswith("cuda") for start in case.run.last_starts):
        return None
    names = [str(name) for name in case.run.environment.get("devices", [])]
    plain = "".join(names[:1]).upper().replace(" ", "").replace("-", "")
    return next((device for name, device in DEVICES.items() if name in plain), None)
