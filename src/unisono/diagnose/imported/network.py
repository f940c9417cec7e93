"""Network and devices of an imported run: computed from sizes and rates, never measured."""

import math
from typing import Any

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.step_arithmetic import (
    AS_GOOD_AS_EQUAL,
    LITTLE,
    MOST_OFF,
    MOSTLY_SOMETHING_ELSE,
    ImportedCompute,
    ImportedExchange,
    imported_compute_of,
    imported_exchange_of,
    port_for,
)
from unisono.diagnose.imported.source import about, first_upper, idle_share, rate, records, says
from unisono.diagnose.report import Answer, reply
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
            f"No network between machines: the updates were made by {who}.",
            values=_values(case, None),
        )
    wire = imported_exchange_of(run, case.ledger)
    if wire is None:
        return reply(
            "network",
            "unknown",
            f"The bytes of an exchange cannot be computed: {_missing(case)}.",
            values=_values(case, None),
            advice=_how_to_import(case),
        )
    if math.isnan(wire.ratio):
        return _without_link(case, wire)
    return reply(
        "network",
        wire.verdict,
        f"{_OPENINGS[wire.verdict]} {_exchange(case, wire)} {_judgement(case, wire)}"
        f"{_arithmetic_says(case, wire)}",
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
            f" On the given link, {_link(case)}, the exchange takes "
            f"{duration(wire.seconds)}, {wire.ratio:.2f} times the step."
        )
    return reply(
        "step_vs_network",
        "answered",
        f"Each step of {duration(wire.step)} moves {amount_of_bytes(wire.card_bytes)} through "
        f"each machine's network card, each way: {needed} on average{_port(wire)}.{taken} How "
        f"step and network vary together is unknown: {records(case)} {says(case)} nothing "
        "about the network.",
        values={**_values(case, wire), "mean_step_seconds": rounded(case.ledger.mean_step, 6)},
        evidence=[_arithmetic(case, wire)],
    )


def answer_devices(case: Case) -> Answer:
    """Say what the devices can have computed; call none busy without a reading of its power."""
    wire = imported_exchange_of(about(case), case.ledger)
    names = case.run.environment.get("devices")
    kind = listing([str(name) for name in names]) if isinstance(names, list) and names else ""
    waited, compute, idle = "", imported_compute_of(case.run), idle_share(case)
    if compute is not None and idle is not None and idle > MOSTLY_SOMETHING_ELSE:
        waited = f" By arithmetic, {_idle(compute, idle)}."
    elif wire is not None and wire.verdict == "bottleneck":
        waited = (
            " The exchange alone takes most of a step: the devices may have waited that long."
        )
    return reply(
        "devices",
        "unknown",
        f"{first_upper(records(case))} {says(case)} nothing about power, utilisation or time "
        f"spent computing.{waited}",
        values={
            "devices": kind or None,
            "utilisation": None,
            "power_watts": None,
            "expected_compute_seconds": rounded(compute.seconds) if compute else None,
        },
        evidence=[
            *([f"devices: {kind}"] if kind else []),
            *([_operations(case, compute)] if compute else []),
            "a utilisation of 100 % proves nothing: a GPU that waits for others shows it too",
        ],
        advice="Read the power that `nvidia-smi` shows during training: a GPU that draws 40 of "
        "250 watts is waiting.",
    )


_OPENINGS = {
    "bottleneck": "Yes, by arithmetic and not by measurement:",
    "not_bottleneck": "No, by arithmetic and not by measurement:",
    "unknown": "Arithmetic does not decide it:",
}


def _exchange(case: Case, wire: ImportedExchange) -> str:
    run = about(case)
    return (
        f"{count(run.processes, 'process', 'processes')} on {count(run.machines, 'machine')} "
        f"exchange {amount_of_bytes(wire.card_bytes)} an update through each machine's network "
        f"card, each way, which takes {duration(wire.seconds)} at {_link(case)}."
    )


def _judgement(case: Case, wire: ImportedExchange) -> str:
    step = f"a measured step of {duration(wire.step)}"
    if wire.verdict == "not_bottleneck":
        return f"That is {percent(wire.ratio)} of {step}, and computing can hide most of it."
    if wire.ratio > MOST_OFF:
        return (
            f"That is {wire.ratio:.1f} times {step}: this link cannot have carried the run, "
            f"which needs {rate(wire.needed_bits_per_second)} at least."
        )
    if wire.ratio <= LITTLE:
        return (
            f"That is {percent(wire.ratio)} of {step}: if the link really delivered that rate, "
            "it was not the bottleneck. But the rate was not measured, and a link that "
            f"delivered {rate(wire.needed_bits_per_second)} would have filled the step."
        )
    if wire.verdict == "unknown":
        return (
            f"That is {percent(wire.ratio)} of {step}. Computing may have hidden a part of it; "
            "how much is unknown."
        )
    if wire.ratio > AS_GOOD_AS_EQUAL:
        return (
            f"The measured step is shorter, {duration(wire.step)}, so either the link carried "
            f"{rate(wire.needed_bits_per_second)} or more (two ports that share the load?), or "
            "the processes sent numbers of 16 bits. Either way the exchange fills the step."
        )
    return f"That is {percent(min(1.0, wire.ratio))} of {step}."


def _advice(case: Case, wire: ImportedExchange) -> str:
    run = about(case)
    if wire.verdict == "unknown" and not wire.measured:
        return (
            "Measure the link, or read what the network card carries during training, and "
            "import the run again with that rate: `--link RATE --measured`."
        )
    if wire.verdict != "bottleneck":
        return ""
    command = (
        f"unisono simulate --nodes 1,{run.machines} --gpus-per-node "
        f"{run.processes // run.machines} --link {run.link_bits_per_second / 1e6:g}mbit"
    )
    return (
        f"Compare with one machine alone, which may be faster: `{command}`. Exchange less "
        "often, by putting more sentences into each update, or use a faster link."
    )


def _link(case: Case) -> str:
    run = about(case)
    return (
        f"{rate(run.link_bits_per_second)} ({'measured' if run.link_measured else 'nominal'})"
    )


def _without_link(case: Case, wire: ImportedExchange) -> Answer:
    run, needed = about(case), rate(wire.needed_bits_per_second)
    return reply(
        "network",
        "unknown",
        f"{first_upper(records(case))} {says(case)} nothing about the link. "
        f"{count(run.processes, 'process', 'processes')} on {count(run.machines, 'machine')} "
        f"exchange {amount_of_bytes(wire.card_bytes)} an update through each machine's network "
        f"card, each way; in a measured step of {duration(wire.step)} that needs {needed} at "
        f"least{_port(wire)}.{_arithmetic_says(case, wire)} A link that was not much faster "
        "was the bottleneck.",
        values=_values(case, wire),
        evidence=_evidence(case, wire),
        advice=_find_the_link(wire),
    )


def _find_the_link(wire: ImportedExchange) -> str:
    again = "import the run again with the rate of the link (`--link 1gbit`)"
    if port := port_for(wire.needed_bits_per_second):
        return (
            f"Check whether the machines are connected at {rate(1e6 * port)} (`ethtool`, the "
            f"provider's port speed), and {again}."
        )
    return f"{first_upper(again)}."


def _port(wire: ImportedExchange) -> str:
    """Name the port that the needed rate would fill, if there is one."""
    port = port_for(wire.needed_bits_per_second)
    return f", about what a port of {rate(1e6 * port)} carries" if port else ""


def _arithmetic_says(case: Case, wire: ImportedExchange) -> str:
    """Say how little of the step computing explains, where the link leaves that open."""
    compute, idle = imported_compute_of(case.run), idle_share(case)
    known = compute is not None and idle is not None and idle > MOSTLY_SOMETHING_ELSE
    if compute is None or idle is None or not known or wire.verdict == "not_bottleneck":
        return ""
    return f" {first_upper(_idle(compute, idle))}."


def _idle(compute: ImportedCompute, idle: float) -> str:
    return (
        f"the devices ({compute.device}) need about {duration(compute.seconds)} to compute "
        f"such a step, so something else took {percent(idle)} of it"
    )


def _operations(case: Case, compute: ImportedCompute) -> str:
    return (
        f"6 operations · {about(case).parameters:,} parameters · {compute.sentences:,} "
        f"sentences of at most {compute.length} tokens = {compute.flops / 1e12:.1f} TFLOP a "
        f"device, at the {compute.rate / 1e12:.1f} TFLOP/s that a {compute.device} reaches in "
        f"training with {compute.precision}"
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


def _how_to_import(case: Case) -> str:
    run = about(case)
    names = [n for n in ("processes", "machines", "parameters") if not getattr(run, n)]
    options = " ".join(f"--{name} N" for name in names)
    return f"Import the run again with `{options} --link 1gbit`." if names else ""


def _values(case: Case, wire: ImportedExchange | None) -> dict[str, Any]:
    run = about(case)
    known, compute = wire is not None and not math.isnan(wire.ratio), None
    if wire is not None:
        compute = imported_compute_of(case.run)
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
        "port_mbit_per_s": (port_for(wire.needed_bits_per_second) or None) if wire else None,
        "expected_compute_seconds": rounded(compute.seconds) if compute else None,
        "unexplained_share": rounded(1 - compute.share_of(wire.step))
        if compute and wire
        else None,
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
    lines, compute = [_arithmetic(case, wire)], imported_compute_of(case.run)
    lines += [_operations(case, compute)] if compute else []
    told = [name for name in run.told if name != "link"]
    if run.link_bits_per_second:
        less = "" if run.link_measured else "; TCP reaches 94 % of it"
        lines.append(f"the rate of the link was given with `--link`{less}")
    if told:
        lines.append(f"given on import: {listing(told)}")
    if case.run.hosts and all(case.run.hosts):
        lines.append(
            f"{records(case)} {says(case)} that it ran on {listing(list(case.run.hosts))}"
        )
    lines.append("all of this is computed; nothing measured the network")
    return lines
