"""What is known of a whole run from few of its updates, against the reading of all of them."""

import pytest
from msgspec.structs import replace

from diagnose.made_runs import BEGAN, ended, saved, start, step, validated
from live_page.made_files import add_events, write_run
from report.rich_run import rich_run
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import judge
from unisono.diagnose.evidence.energy import joules_of
from unisono.live import run_history
from unisono.live.run_history import RunHistory
from unisono.records import follow, skim
from unisono.records.follow import Follower
from unisono.records.view import RunView, read_run

UPDATES = 3000
NOW = BEGAN + UPDATES + 100
HOSTS = ("alpha", "beta")


def opened(path, **ways):
    """The case on the whole run, and the history that it comes from."""
    history = RunHistory()
    follower = Follower(path, recent=True, listener=history, **ways)
    history.least = follower.stride
    return history.case(follower.look(), NOW), history


def changing(rank, number):
    """An update whose exchange takes longer in the second half; the first one is slow."""
    wire = 0.5 if number > UPDATES / 2 else 0.1 + 0.02 * rank
    seconds = 30.0 if number == 1 else 1.0
    parts = {"forward": seconds - 0.8, "backward": 0.2, "optimizer": 0.1, "exchange": wire}
    return step(number, seconds=seconds, time=BEGAN + 29 + number, **parts)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    run = RunView(
        path=tmp_path_factory.mktemp("long"),
        starts=tuple(start(rank, 2, host) for rank, host in enumerate(HOSTS)),
        ranks={r: tuple(changing(r, n) for n in range(1, UPDATES + 1)) for r in (0, 1)},
        validations=tuple(validated(n, 2 + 30 / n) for n in range(100, UPDATES, 100)),
        ends=(ended(UPDATES),),
    )
    cost = '[cost]\nper_machine_hour = 3.6\ncurrency = "EUR"\n'
    return write_run(run.path, run, f"[train]\nmax_steps = {UPDATES}\n{cost}")


@pytest.mark.parametrize("sparse", [False, True])
def test_a_long_run_has_the_answers_of_all_its_updates(long_run, monkeypatch, sparse):
    monkeypatch.setattr(skim, "SKIMMED", 300)
    monkeypatch.setattr(follow, "RECENT_BYTES", 150_000)
    (case, history), whole = opened(long_run, sparse=sparse), open_case(read_run(long_run), NOW)
    assert history.every > 1
    kept = len(case.run.ranks[1])
    assert kept <= run_history.MOST_UPDATES + 4
    ledger = case.ledger
    assert ledger.complete
    assert ledger.updates == UPDATES
    assert (ledger.wall, ledger.evaluation) == (whole.ledger.wall, whole.ledger.evaluation)
    assert (ledger.starting, ledger.ending) == (whole.ledger.starting, whole.ledger.ending)
    for cause, seconds in whole.ledger.seconds.items():
        assert ledger.seconds[cause] == pytest.approx(seconds, rel=0.02, abs=1.0), cause
    ours, theirs = judge(case), judge(whole)
    assert ours.bottleneck.cause == theirs.bottleneck.cause == "network"
    assert ours.bottleneck.share == pytest.approx(theirs.bottleneck.share, abs=0.01)
    assert [one.verdict for one in ours.answers] == [one.verdict for one in theirs.answers]
    assert ours.answer("duration").values == theirs.answer("duration").values
    assert ours.cost.purposes == pytest.approx(theirs.cost.purposes, abs=0.05)
    assert ours.cost.money == theirs.cost.money


def test_a_short_run_has_the_answers_of_the_report(tmp_path):
    path = write_run(tmp_path / "run", rich_run())
    (case, history), whole = opened(path), open_case(read_run(path), NOW)
    assert history.every == 1
    ours, theirs = judge(case), judge(whole)
    assert ours.answers == theirs.answers
    assert ours.bottleneck == theirs.bottleneck
    assert ours.cost == theirs.cost
    assert case.joules > 0
    assert case.joules == pytest.approx(joules_of(whole.run))


def crashed(again, every=100):
    """A run that saves every hundred updates, and dies at 555 and 777, to go on from 500."""
    events, time = [], BEGAN
    for begin, end in ((0, 555), (500, 777), (700 if again else 0, 900)):
        events.append(start(0, 1, step=begin, time=time))
        for number in range(begin + 1, end + 1):
            time += 1.0
            events.append(step(number, time=time))
            if number % every == 0:
                time += 0.5
                events.append(replace(saved(number), time=time, seconds=0.5))
        time += 60.0
    return events


@pytest.mark.parametrize("again", [True, False])
def test_what_crashes_undid_is_known(tmp_path, monkeypatch, again):
    monkeypatch.setattr(run_history, "MOST_UPDATES", 100)
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "events").mkdir()
    add_events(tmp_path, crashed(again))
    (case, history), whole = opened(tmp_path), read_run(tmp_path)
    assert history.every > 1
    assert whole.undone > 100
    assert case.run.undone == pytest.approx(whole.undone, abs=1.5)
    assert case.ledger.updates == len(whole.steps) == 900
    firsts = [row.updates for row in case.ledger.rows if row.first]
    assert set(firsts) == {1}
    assert len(firsts) == (3 if again else 1)


def test_a_process_that_is_ahead_or_makes_updates_again_does_not_count_twice(tmp_path):
    history = RunHistory()
    for rank in (0, 1):
        history.hear(rank, start(rank, 2))
        for number in (*range(1, 20), *range(10, 21 + rank)):
            history.hear(rank, step(number))
    view = RunView(path=tmp_path, starts=(start(0, 2), start(1, 2)))
    case = history.case(view, NOW)
    assert [update.step for update in case.run.ranks[0]] == list(range(1, 21))
    assert [update.step for update in case.run.ranks[1]] == list(range(1, 22))
    assert case.ledger.updates == 20
