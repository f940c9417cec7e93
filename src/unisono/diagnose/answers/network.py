"""What was the network doing, and was it the bottleneck?"""

from typing import Any

from unisono.cost_model.strategies import overlaps
from unisono.diagnose.case import Case
from unisono.diagnose.evidence import link_use
from unisono.diagnose.evidence.expected_bytes import arithmetic, expected_bytes
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import listing, percent, rounded
from unisono.units import amount_of_bytes, duration

MUCH_EXCHANGE = 0.30  # of the time
FEWEST_UPDATES = 5
NO_LINK_SAMPLES = "the rate of the link and the bytes on it were not sampled"


def answer_network(case: Case) -> Answer:
    """Say what was exchanged, between whom, and how much of the time it cost."""
    if not case.sessions:
        return reply("network", "unknown", "No process has recorded where it ran.")
    if len(set(case.sizes)) > 1:
        return _changing(case)
    if case.size <= 1:
        return reply(
            "network",
            "not_used",
            "One process made every update and exchanged nothing.",
            values=_values(case),
        )
    if not case.run.hosts:
        return _unknown(case, "No process has recorded on which machine it ran.")
    if len(case.run.last_starts) < case.size:
        known = len(case.run.last_starts)
        return _unknown(
            case, f"Only {known} of {case.size} processes recorded on which machine they ran."
        )
    return _loopback(case) if len(case.run.hosts) == 1 else _between_hosts(case)


def _values(case: Case) -> dict[str, Any]:
    rows = case.ledger.rows
    step = sum(row.seconds for row in rows)
    return {
        "processes": case.size,
        "hosts": list(case.run.hosts),
        "expected_bytes_per_step": expected_bytes(case),
        "share_of_step": rounded(sum(row.wire for row in rows) / step) if step > 0 else None,
        "hidden_seconds_per_step": rounded(_hidden(case), 4) if _tells_hidden(case) else None,
        "loopback_bytes_per_step": rounded(link_use.loopback_bytes(case), 0),
        **_measured(link_use.slowest(link_use.link_uses(case))),
    }


def _measured(use: link_use.LinkUse | None) -> dict[str, Any]:
    """Return what was sampled on the machine with the slowest link."""
    return {
        "interface": use.interface if use else None,
        "link_mbit_per_s": rounded(use.mbit_per_s, 1) if use else None,
        "nominal_mbit_per_s": (use.nominal_mbit_per_s or None) if use else None,
        "measured_bytes_per_step": round(use.bytes.more) if use else None,
        "foreign_bytes_per_step": round(use.foreign) if use else None,
    }


def _unknown(case: Case, summary: str) -> Answer:
    return reply("network", "unknown", summary, values=_values(case))


def _changing(case: Case) -> Answer:
    sizes = listing([str(size) for size in case.sizes])
    changed = f"The number of processes changed from start to start ({sizes})"
    hosts = sorted({start.host for start in case.run.starts})
    if len(hosts) != 1:
        return _unknown(case, f"{changed}, so no single number says what the link carried.")
    share = percent(case.bottleneck.shares.network)
    return reply(
        "network",
        "not_used",
        f"{changed}, all on {hosts[0]}: gradients stayed inside the machine (loopback), and "
        f"exchanging them took {share} of the time.",
        values={**_values(case), "expected_bytes_per_step": None, "processes": case.sizes},
        evidence=["every `started` event names the same host", link_use.loopback_line(case)],
    )


def _loopback(case: Case) -> Answer:
    share = case.bottleneck.shares.network
    return reply(
        "network",
        "not_used",
        f"All {case.size} processes ran on {case.run.hosts[0]}: gradients stayed inside the "
        f"machine (loopback), {amount_of_bytes(expected_bytes(case))} an update each way by "
        f"the ring formula, and exchanging them took {percent(share)} of the time.",
        values=_values(case),
        evidence=[
            arithmetic(case),
            "every `started` event names the same host",
            link_use.loopback_line(case),
        ],
    )


def _between_hosts(case: Case) -> Answer:
    share = case.bottleneck.shares.network
    if len(case.ledger.rows) < FEWEST_UPDATES:
        return _unknown(case, "The run recorded too few updates to tell what the network cost.")
    if not case.ledger.complete and share >= 0.1:
        return _unknown(
            case,
            f"The exchange took {percent(share)} of the time, but some processes left no "
            "record, so a slow link and a straggler look the same.",
        )
    guilty = case.bottleneck.cause == "network" or share >= MUCH_EXCHANGE
    between = f"between {listing(list(case.run.hosts))}"
    cost = f"the processes waited for the exchange {between} for {percent(share)} of the time"
    return reply(
        "network",
        "bottleneck" if guilty else "not_bottleneck",
        f"{'Yes' if guilty else 'No'}: {cost}{_seen(case)}.",
        values=_values(case),
        evidence=_evidence(case),
        advice=_advice(case) if guilty else "",
    )


def _seen(case: Case) -> str:
    use = link_use.slowest(link_use.link_uses(case))
    if use is None:
        return f"; {NO_LINK_SAMPLES}"
    expected = expected_bytes(case)
    of_which = "of which" if use.bytes.more >= expected else "where"
    return (
        f". On {use.node.host}, {use.interface} carried {amount_of_bytes(use.bytes.more)} an "
        f"update each way, {of_which} the exchange needs {amount_of_bytes(expected)}; "
        f"while it had something to send, it carried {use.mbit_per_s:.0f} Mbit/s"
    )


def _evidence(case: Case) -> list[str]:
    rows = case.ledger.usual
    wire = sum(row.wire for row in rows) / len(rows)
    backward = sum(row.parts["backward"] for row in rows) / len(rows)
    lines = [
        arithmetic(case),
        f"exchange that the backward pass did not hide: {duration(wire)} of "
        f"{duration(case.ledger.mean_step)} an update, on the process that waited least",
    ]
    if _tells_hidden(case):
        lines.append(
            f"exchange that the backward pass hid: {duration(_hidden(case))} an update"
        )
    uses = link_use.link_uses(case)
    if uses:
        return lines + [line for use in uses for line in use.lines(expected_bytes(case))]
    if wire > 0:
        most, least = (8e-6 * expected_bytes(case) / t for t in (wire, wire + backward))
        lines.append(
            f"to send these bytes in that time and during the backward pass, a process needs "
            f"between {least:.0f} and {most:.0f} Mbit/s each way"
        )
    lines.append(NO_LINK_SAMPLES)
    return lines


def _tells_hidden(case: Case) -> bool:
    """Return whether it was recorded: on GPUs, older versions wrote 0."""
    overlapping = all(overlaps(start.strategy) for start in case.run.last_starts)
    on_cpu = all(start.device == "cpu" for start in case.run.last_starts)
    recorded = on_cpu or any(row.hidden > 0 for row in case.ledger.rows)
    return bool(case.ledger.rows) and case.size > 1 and overlapping and recorded


def _hidden(case: Case) -> float:
    rows = case.ledger.usual
    return sum(row.hidden for row in rows) / len(rows)


def _advice(case: Case) -> str:
    without = case.bottleneck.without_it_seconds_per_step
    gain = ""
    if case.bottleneck.cause == "network" and without is not None:
        gain = f"Without the exchange an update would take {duration(without)}. "
    return (
        f"{gain}Make updates larger (`batching.tokens_per_update`), so that the processes "
        "exchange less often, and compare with one machine alone, which may be faster."
    )
