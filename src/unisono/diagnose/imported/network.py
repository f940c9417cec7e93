"""Network and devices of an imported run: computed from sizes and rates, never measured."""

import math
from typing import Any

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.imported_exchange import (
    AS_GOOD_AS_EQUAL,
    LITTLE,
    MOST_OFF,
    ImportedExchange,
    imported_exchange_of,
)
from unisono.diagnose.imported.words import about, rate, records, says
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import count, listing, percent, rounded
from unisono.units import amount_of_bytes, duration


def answer_network(case: Case) -> Answer:
    """Say what the processes had to exchange, and whether the link explains the step."""
    run = about(case)
    if run.processes == 1 or run.machines == 1:
        who = "one process" if run.processes == 1 else "processes on one machine"
        return reply(
            "network",
            "not_used",
            f"It was not used between machines: the updates were made by {who}.",
            values=_values(case, None),
        )
    wire = imported_exchange_of(run, case.ledger)
    if wire is None:
        return reply(
            "network",
            "unknown",
            f"What was exchanged cannot be computed: {_missing(case)}.",
            values=_values(case, None),
            advice=_how_to_tell(case),
        )
    if math.isnan(wire.ratio):
        return _without_link(case, wire)
    return reply(
        "network",
        wire.verdict,
        f"{_OPENINGS[wire.verdict]} {_exchange(case, wire)} {_judgement(case, wire)}",
        values=_values(case, wire),
        evidence=_evidence(case, wire),
        advice=_advice(case, wire),
    )


def answer_step_vs_network(case: Case) -> Answer:
    """Put the bytes of an update beside its seconds."""
    run = about(case)
    if run.processes == 1 or run.machines == 1:
        return reply(
            "step_vs_network",
            "answered",
            "Nothing was exchanged between machines, so no step waited for a network.",
            values={"processes": run.processes, "expected_bytes_per_step": 0},
        )
    wire = imported_exchange_of(run, case.ledger)
    if wire is None:
        return reply(
            "step_vs_network", "unknown", f"This cannot be computed: {_missing(case)}."
        )
    needed = rate(wire.needed_bits_per_second)
    taken = ""
    if not math.isnan(wire.ratio):
        taken = (
            f" On the link that was given, {_link(case)}, they take {duration(wire.seconds)}: "
            f"{wire.ratio:.2f} times the step."
        )
    return reply(
        "step_vs_network",
        "answered",
        f"A step of {duration(wire.step)} has to bring {amount_of_bytes(wire.card_bytes)} "
        f"through each machine's card, each way: {needed} on average, without a pause.{taken} "
        f"How the two vary together is not known: {records(case)} {says(case)} nothing about "
        "the network.",
        values={**_values(case, wire), "mean_step_seconds": rounded(case.ledger.mean_step, 6)},
        evidence=[_arithmetic(case, wire)],
    )


def answer_devices(case: Case) -> Answer:
    """Never call a device busy without a reading of its power."""
    wire = imported_exchange_of(about(case), case.ledger)
    names = case.run.environment.get("devices")
    kind = listing([str(name) for name in names]) if isinstance(names, list) and names else ""
    waited = ""
    if wire is not None and wire.verdict == "bottleneck":
        waited = " The exchange alone fills the step, so they may have waited for most of it."
    return reply(
        "devices",
        "unknown",
        f"{_first_upper(records(case))} {says(case)} nothing about power, utilisation or time "
        f"spent computing.{waited}",
        values={"devices": kind or None, "utilisation": None, "power_watts": None},
        evidence=[
            *([f"devices: {kind}"] if kind else []),
            "a utilisation of 100 % would prove nothing: a GPU that waits for others reads "
            "100 %, and only its power tells",
        ],
        advice="Look at the power that `nvidia-smi` shows while it trains: 40 of 250 watts is "
        "a GPU that waits.",
    )


_OPENINGS = {
    "bottleneck": "Yes, by arithmetic and not by measurement:",
    "not_bottleneck": "No, by arithmetic and not by measurement:",
    "unknown": "Arithmetic does not decide it:",
}


def _exchange(case: Case, wire: ImportedExchange) -> str:
    run = about(case)
    return (
        f"{count(run.processes, 'process', 'processes')} on "
        f"{count(run.machines, 'machine')} exchange {amount_of_bytes(wire.card_bytes)} an "
        f"update through each machine's card, each way, which takes {duration(wire.seconds)} "
        f"at {_link(case)}."
    )


def _judgement(case: Case, wire: ImportedExchange) -> str:
    step = f"a measured step of {duration(wire.step)}"
    if wire.verdict == "not_bottleneck":
        return f"That is {percent(wire.ratio)} of {step}, and most of it can hide behind it."
    if wire.ratio > MOST_OFF:
        return (
            f"That is {wire.ratio:.1f} times {step}: this link cannot have carried the run. It "
            f"carried {rate(wire.needed_bits_per_second)} at least."
        )
    if wire.ratio <= LITTLE:
        return (
            f"That is {percent(wire.ratio)} of {step}: if the link really delivered that, it "
            "was not the bottleneck. Whether it did was not measured; one that delivered "
            f"{rate(wire.needed_bits_per_second)} would have filled the step."
        )
    if wire.verdict == "unknown":
        return (
            f"That is {percent(wire.ratio)} of {step}: a part of it may have hidden behind the "
            "computing, and how much is not known."
        )
    if wire.ratio > AS_GOOD_AS_EQUAL:
        return (
            f"The measured step is shorter, {duration(wire.step)}: so the link carried more, "
            f"{rate(wire.needed_bits_per_second)} at least (two ports that share the load?), "
            "or numbers of 16 bits were sent. Either way the exchange fills the step."
        )
    return f"That is {percent(min(1.0, wire.ratio))} of {step}."


def _advice(case: Case, wire: ImportedExchange) -> str:
    run = about(case)
    if wire.verdict == "unknown" and not wire.measured:
        return (
            "Read off what the card carries in a second while it trains, or test the link, and "
            "import it again with that rate: `--link RATE --measured`."
        )
    if wire.verdict != "bottleneck":
        return ""
    command = (
        f"unisono simulate --nodes 1,{run.machines} --gpus-per-node "
        f"{run.processes // run.machines} --link {run.link_bits_per_second / 1e6:g}mbit"
    )
    return (
        f"Compare with one machine alone, which may well be faster: see `{command}`. Exchange "
        "less often, with more sentences an update, or over a faster link."
    )


def _link(case: Case) -> str:
    run = about(case)
    return (
        f"{rate(run.link_bits_per_second)} ({'measured' if run.link_measured else 'as bought'})"
    )


def _without_link(case: Case, wire: ImportedExchange) -> Answer:
    run, needed = about(case), rate(wire.needed_bits_per_second)
    return reply(
        "network",
        "unknown",
        f"{_first_upper(records(case))} {says(case)} nothing about the link. "
        f"{count(run.processes, 'process', 'processes')} on {count(run.machines, 'machine')} "
        f"exchange {amount_of_bytes(wire.card_bytes)} an update through each machine's card, "
        f"each way; in a measured step of {duration(wire.step)} that takes a link of {needed} "
        "at least. If it was not much faster than that, it was the bottleneck.",
        values=_values(case, wire),
        evidence=_evidence(case, wire),
        advice="Import it again with `--link 1gbit`, or whatever lay between the machines.",
    )


def _missing(case: Case) -> str:
    run = about(case)
    facts = {
        "the number of processes": run.processes,
        "the number of machines": run.machines,
        "the number of parameters": run.parameters,
        "the time of a step": len(case.ledger.rows),
    }
    missing = [name for name, known in facts.items() if not known]
    verb = "is" if len(missing) == 1 else "are"
    return f"{listing(missing)} {verb} not known" if missing else "a step took no time"


def _how_to_tell(case: Case) -> str:
    run = about(case)
    names = [n for n in ("processes", "machines", "parameters") if not getattr(run, n)]
    options = " ".join(f"--{name} N" for name in names)
    return f"Import it again with `{options} --link 1gbit`." if names else ""


def _values(case: Case, wire: ImportedExchange | None) -> dict[str, Any]:
    run = about(case)
    known = wire is not None and not math.isnan(wire.ratio)
    interfaces = {start.interface for start in case.run.last_starts if start.interface}
    return {
        "processes": run.processes or None,
        "machines": run.machines or None,
        "hosts": [host for host in case.run.hosts if host] or None,
        "interface": interfaces.pop() if len(interfaces) == 1 else None,
        "link_mbit_per_s": rounded(run.link_bits_per_second / 1e6) if known else None,
        "link_measured": run.link_measured if known else None,
        "needed_mbit_per_s": rounded(wire.needed_bits_per_second / 1e6, 1) if wire else None,
        "expected_bytes_per_step": round(wire.card_bytes) if wire else None,
        "measured_bytes_per_step": None,
        "expected_exchange_seconds": rounded(wire.seconds, 6) if wire else None,
        "share_of_step": rounded(min(1.0, wire.ratio)) if wire and known else None,
        "computed": True,
    }


def _arithmetic(case: Case, wire: ImportedExchange) -> str:
    run = about(case)
    return (
        f"2 · ({run.processes} − 1)/{run.processes} · 4 bytes · {run.parameters:,} parameters "
        f"= {amount_of_bytes(wire.card_bytes)} an update: a ring over all processes, in float32"
    )


def _evidence(case: Case, wire: ImportedExchange) -> list[str]:
    run = about(case)
    lines = [_arithmetic(case, wire)]
    told = [name for name in run.told if name != "link"]
    if run.link_bits_per_second:
        less = "" if run.link_measured else ", of which TCP carries 94 %"
        lines.append(f"the rate of the link is what was given with `--link`{less}")
    if told:
        lines.append(f"given by the one who imported the run: {listing(told)}")
    if case.run.hosts and all(case.run.hosts):
        lines.append(
            f"{records(case)} {says(case)} that it ran on {listing(list(case.run.hosts))}"
        )
    lines.append("nothing on the wire was measured: all this is computed")
    return lines


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
