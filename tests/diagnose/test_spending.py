"""What a run cost: known runs, known prices."""

from dataclasses import replace
from pathlib import Path

import pytest

from diagnose.made_runs import BEGAN, CONFIG, ended, healthy_run, now, start, team
from diagnose.made_samples import machine, samples
from unisono.config.load import load_settings
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.spending import (
    PURPOSES,
    idle_words,
    spending_words,
    spent_so_far,
)
from unisono.errors import ConfigError
from unisono.live.window import now_of
from unisono.records.monitor_events import Gpu, MachineLog
from unisono.report.page import render_html, render_json
from unisono.report.text import render_markdown, render_text

HOUR = 3600.0
TINY = Path(__file__).parents[2] / "configs" / "tiny.toml"


def priced(run, **prices):
    return replace(run, config={**CONFIG, "cost": {"per_machine_hour": 36.0, **prices}})


def cost_of(run):
    return diagnose(run, now()).cost


def two_machines(wire=0.5):
    parts = {"forward": 0.2, "backward": 0.2, "optimizer": 0.1, "exchange": wire}
    return team(lambda rank, n: parts, ["alpha", "beta"])


def test_no_price_no_cost():
    report = diagnose(healthy_run(), now())
    assert not report.cost
    assert '"cost"' not in render_json(report)
    assert "cost" not in render_text(report)


def test_every_machine_is_paid_for_from_start_to_end():
    # 201 seconds on two machines at 36 an hour, which is 0.01 a second.
    cost = cost_of(priced(two_machines()))
    assert cost.money == pytest.approx(2 * 2.01)
    assert cost.machine_hours == pytest.approx(2 * 201 / HOUR, abs=1e-4)
    assert cost.per_hour == 72.0


def test_a_machine_may_have_its_own_price():
    cost = cost_of(priced(two_machines(), per_host={"beta": 72.0}))
    assert cost.money == pytest.approx(2.01 + 4.02)


def test_the_purposes_are_those_of_the_ledger_and_add_up():
    cost = cost_of(priced(two_machines(wire=0.5)))
    assert set(cost.purposes) == set(PURPOSES)
    assert sum(cost.purposes.values()) == pytest.approx(cost.money, abs=1e-3)
    assert cost.purposes["compute"] / cost.money == pytest.approx(0.5, abs=0.01)
    assert cost.purposes["network"] / cost.money == pytest.approx(0.5, abs=0.01)


def test_what_a_crash_undid_has_a_price():
    cost = cost_of(priced(healthy_run(undone=20.1)))
    assert cost.purposes["undone"] / cost.money == pytest.approx(0.1, abs=0.01)


def test_one_machine_alone_would_have_been_cheaper():
    # Half a second of computing for half of the tokens, half a second on the wire: alone a
    # machine takes as long, at half of the price.
    cost = cost_of(priced(two_machines(wire=0.5)))
    assert cost.one_machine.host in ("alpha", "beta")
    assert cost.one_machine.money / cost.money == pytest.approx(0.5, abs=0.06)
    assert "alone would have needed" in " ".join(spending_words(cost))


def test_each_start_has_the_machines_it_had():
    second = BEGAN + 100.0
    starts = (
        start(0, 2, "alpha"),
        start(1, 2, "beta", time=BEGAN + 0.3),
        start(0, 1, "alpha", step=100, time=second),
    )
    cost = cost_of(priced(healthy_run(starts=starts)))
    # The first start was seen for 99 seconds at least, on two machines; the second on one.
    assert cost.money == pytest.approx(2 * 1.0 + 1.01, abs=0.03)
    assert cost.per_hour == 36.0


def test_energy_is_the_power_of_the_gpus_that_are_used():
    power = [Gpu(index=0, watts=200.0), Gpu(index=1, watts=999.0)]
    here = replace_used(machine(), [0])
    log = MachineLog(machines=(here,), samples=samples(gpus=power))
    cost = cost_of(
        priced(healthy_run(machines={0: log}), per_kwh=0.30, grams_co2_per_kwh=400.0)
    )
    kwh = 200.0 * 201 / HOUR / 1000
    assert cost.energy.kwh == pytest.approx(kwh, rel=0.01)
    assert cost.energy.money == pytest.approx(0.30 * kwh, abs=1e-4)
    assert cost.energy.co2_grams == pytest.approx(400 * kwh, rel=0.01)
    assert "kWh" in " ".join(spending_words(cost))


def replace_used(event, used):
    return type(event)(
        **{name: getattr(event, name) for name in event.__struct_fields__} | {"used": used}
    )


def test_report_page_and_watch_say_it():
    run = priced(two_machines(), currency="EUR")
    report = diagnose(run, now())
    for text in (
        render_text(report, 200),
        render_markdown(report, run),
        render_html(report, run),
    ):
        assert "4.02 EUR" in text
        assert "waiting for the network 2.0" in text
    shown = now_of(run, now(), open_case(run, now())).cost
    assert shown == (
        "4.02 EUR so far, 72.00 an hour; of it computing 2.00 and waiting for the network 2.00"
    )


def test_a_run_that_has_not_begun_costs_nothing():
    run = priced(healthy_run(starts=(), ranks={}, validations=(), saves=(), ends=()))
    assert not diagnose(run, now()).cost
    assert spent_so_far(open_case(run, now()), open_case(run, now())) == ""


def test_prices_that_cannot_be_read_are_no_prices():
    run = healthy_run()
    for table in ({"per_machine_hour": "much"}, [], 3, {"unknown": 1}):
        assert not cost_of(replace(run, config={**CONFIG, "cost": table}))


@pytest.mark.parametrize(
    "wrong",
    ["cost.per_machine_hour=-1", 'cost.currency="US\\u0007D"', "cost.perhour=2"],
)
def test_wrong_prices_are_refused(wrong):
    with pytest.raises(ConfigError, match="cost"):
        load_settings(TINY, [wrong])


def rented(**prices):
    starts = tuple(start(rank, size=2, host=host) for rank, host in enumerate("ab"))
    cost = {"per_machine_hour": 2.5, **prices}
    run = healthy_run(starts=starts, config={**CONFIG, "cost": cost}, ends=(ended(),))
    return open_case(run, 0.0).sessions[-1].last_seen, run


@pytest.mark.parametrize(
    ("minutes", "prices", "said"),
    [
        (20, {}, "a and b have been idle for 20 min 00 s: 1.67 USD so far"),
        (0, {"currency": "EUR"}, "a and b now stand idle, for 5.00 EUR an hour"),
        (
            60,
            {"per_host": {"b": 1.5}},
            "a and b have been idle for 1 h 00 min: 4.00 USD so far",
        ),
        (20, {"per_machine_hour": 0.0}, ""),
    ],
)
def test_machines_that_are_idle_after_the_end_cost_on(minutes, prices, said):
    end, run = rented(**prices)
    assert idle_words(open_case(run, end + 60 * minutes)) == said


def test_machines_of_a_run_that_goes_on_are_not_idle():
    end, run = rented()
    assert idle_words(open_case(replace(run, ends=()), end + 1)) == ""
