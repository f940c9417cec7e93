"""What the page knows of a run that it reads again and again, against the report's reading."""

import bisect
import re
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from diagnose.made_runs import BEGAN, start, step, with_sentences
from diagnose.made_runs import curve as losses_of
from live_page.made_files import add_events, write_run
from report.rich_run import rich_run
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import judge
from unisono.live_page import followed_run, parts
from unisono.live_page.followed_run import FollowedRun
from unisono.records import follow, skim
from unisono.records.events import Sample
from unisono.records.sentence_losses import write_losses
from unisono.records.view import read_run
from unisono.report.machine_curves import sampled_machines
from unisono.report.machine_panels import machine_panels, network_panel


@pytest.fixture
def written(tmp_path):
    return write_run(tmp_path / "run", rich_run())


def followed(path):
    run = FollowedRun(path)
    run.look()
    return run


def at(curve, step):
    """The value of the point of a curve that is nearest to a step."""
    places = [x for x, _ in curve.points]
    place = min(bisect.bisect_left(places, step), len(places) - 1)
    return curve.points[place][1]


def test_machines_are_drawn_as_the_report_draws_them(written):
    run, whole = followed(written), read_run(written)
    machines = sampled_machines(whole)
    theirs = [network_panel(whole, machines), *machine_panels(whole, machines)]
    ours = [network_panel(run.view, run.machines), *machine_panels(run.view, run.machines)]
    shown = [panel.title for panel in theirs if not panel.is_empty]
    assert shown == [panel.title for panel in ours if not panel.is_empty]
    assert {"Network rate", "CPU use", "GPU use", "GPU power"} <= set(shown)
    for panel, known in zip(ours, theirs, strict=True):
        for curve, one in zip(panel.curves, known.curves, strict=True):
            assert (curve.name, curve.style) == (one.name, one.style)
            for place in (20, 45, 80, 130, 190):
                spread = max(y for _, y in one.points) - min(y for _, y in one.points)
                assert at(curve, place) == pytest.approx(
                    at(one, place), rel=0.1, abs=spread / 8
                )


def test_money_of_all_starts_counts_although_old_updates_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "KEPT_STEPS", 10)
    run = rich_run()
    path = write_run(tmp_path / "run", replace(run, validations=(), saves=(), warnings=()))
    money, currency, hourly = followed(path).spent
    # Two machines from the first start to the last update, but for 0.2 s between the starts.
    seconds = run.steps[-1].time - run.starts[0].time
    assert money == pytest.approx(2 * 3.6 * seconds / 3600, rel=0.02)
    assert (currency, hourly) == ("EUR", 7.2)


def test_starts_of_a_process_whose_history_is_skipped_are_known(written, monkeypatch):
    monkeypatch.setattr(follow, "RECENT_BYTES", 2000)
    monkeypatch.setattr(follow, "TAIL_BYTES", 700)
    monkeypatch.setattr(skim, "SKIMMED", 4)
    run = followed(written)
    assert run.complete()
    assert run.view.starts == read_run(written).starts
    assert [s.step for s in run.view.ranks[1]] == [
        s.step for s in run.view.ranks[0][-len(run.view.ranks[1]) :]
    ]
    assert 0 < len(run.view.ranks[1]) < 20


def test_each_machine_has_its_own_bar_and_its_own_row(tmp_path):
    made = rich_run()
    slow = tuple(step(n, forward=0.1, backward=0.6, exchange=0.3) for n in range(1, 201))
    path = write_run(tmp_path / "run", replace(made, ranks={0: slow, 1: made.ranks[1]}))
    run = followed(path)
    bars = re.findall(r'aria-label="(\w+), [^"]*backward: ([^,]*),', parts.state(run)["now"])
    assert bars == [("alpha", "0.60 s"), ("beta", "0.15 s")]
    assert parts.head(run)["machines"] == ""  # it has ended
    quiet = {
        rank: replace(log, samples=log.samples[:60]) for rank, log in made.machines.items()
    }
    two = replace(made, machines={0: made.machines[0], 1: quiet[1]}, ends=(), tests=())
    going = followed(write_run(tmp_path / "going", two))
    going.now = made.machines[0].samples[-1].time + 60
    rows = dict(re.findall(r'class="who">(\w+)</span></p>\n<p class="does">(.*?)</p>',
                           parts.head(going)["machines"]))  # fmt: skip
    assert "no sample" in rows["beta"]
    assert "no sample" not in rows["alpha"]


def test_a_restart_undoes_what_the_machines_did_after_its_checkpoint(written):
    run = followed(written)
    assert all(machine.bins[-1].step > 150 for machine in run.machines)
    add_events(written, [start(0, 2, "alpha", step=100, time=BEGAN + 300)])
    run.look()
    assert all(machine.bins[-1].step <= 100 for machine in run.machines)


def test_another_run_in_the_same_directory_is_read_from_its_beginning(written):
    run = followed(written)
    for file in (*written.glob("events/*"), *written.glob("monitor/*")):
        file.unlink()
    (written / "config.toml").unlink()
    run.look()  # there is nothing right now
    again = rich_run()
    write_run(written, replace(again, machines={}, found=()), "[train]\nmax_steps = 777\n")
    run.look()
    assert run.progress.updates == 777
    assert run.view.found == ()


def test_a_forecast_goes_to_the_planned_end_and_not_beyond_half_as_much_again(written):
    run = followed(written)
    run.case = replace(run.case, run=replace(run.view, alive=True))
    run.progress = replace(run.progress, state="running")
    assert (run.progress.updates, run.forecast_end) == (400, 300)
    run.progress = replace(run.progress, updates=250)
    assert (run.forecast_end, run.span.high) == (250, 250)
    expected, low, high = run.forecast.loss_at(250)
    assert low <= expected <= high
    last = run.view.validations[-1].loss
    assert expected < last
    assert run.forecast.loss_at(run.forecast.last_step)[0] == pytest.approx(last, rel=0.02)
    run.progress = replace(run.progress, state="finished")
    assert run.forecast_end == 0


def test_every_part_escapes_what_comes_from_the_run(tmp_path):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'"
    made = rich_run(hosts=(evil, "beta"))
    named = [replace(made, found=tuple(_named(one, evil) for one in made.found))]
    samples = tuple(_sampled(one, evil) for one in named[0].validations)
    path = write_run(tmp_path / "run", replace(named[0], validations=samples))
    run = followed(path)
    drawn = {**parts.head(run), **parts.state(run), **parts.charts(run), **parts.whole_run(run)}
    machines = {rank: _hosted(log, evil) for rank, log in made.machines.items()}
    still = replace(named[0], ends=(), machines=machines)
    going = followed(write_run(tmp_path / "going", still))
    drawn["machines"] = parts.head(going)["machines"]
    drawn |= parts.runs_table([run, run], [evil, "b"])
    drawn |= parts.comparison([run, run], [evil, "b"])
    for name, text in drawn.items():
        assert "<img" not in text, name
        assert "<script" not in text, name
    for name in ("findings", "machines", "translations", "runs", "comparison", "now", "course"):
        assert "&lt;img src=x" in drawn[name], name


def _named(found, words):
    return type(found)(time=found.time, step=found.step, id="x", summary=words)


def _hosted(log, host):
    return replace(log, machines=tuple(changed(one, host=host) for one in log.machines))


def _sampled(validation, words):
    return changed(validation, samples=(Sample(words, words, words),))


@pytest.mark.parametrize("most", [1, 20])
def test_validations_are_compared_sentence_by_sentence(tmp_path, monkeypatch, most):
    monkeypatch.setattr(followed_run, "MOST_COMPARED_VALIDATIONS", most)
    losses = [6.0, 5.0, 4.0, 3.5, 3.2, 3.0, 2.95, 2.96, 2.94, 2.93, 2.95, 2.92]
    validations = losses_of(losses)
    known = with_sentences(validations)
    path = write_run(tmp_path / "run", replace(rich_run(), validations=validations))
    for number, per_sentence in known.at_step.items():
        write_losses(path, number, per_sentence.tolist(), known.tokens)
    run = followed(path)
    ours = {one.id: one for one in judge(run.whole()).answers}
    theirs = {one.id: one for one in judge(open_case(read_run(path), run.now)).answers}
    for name in ("trained", "overfitting"):
        assert ours[name] == theirs[name]
    assert "sentence" in " ".join(ours["trained"].evidence)


def test_a_run_that_has_written_nothing_yet_has_a_page(tmp_path):
    (tmp_path / "config.toml").write_text("")
    run = followed(tmp_path)
    for draw in (parts.head, parts.state, parts.charts, parts.whole_run):
        assert all(isinstance(text, str) for text in draw(run).values())
    add_events(tmp_path, [start(time=BEGAN), step(1)])
    run.look()
    assert "step 1" in parts.head(run)["head"]
