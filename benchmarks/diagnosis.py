"""Does the report name what is wrong with a run?

    python benchmarks/diagnosis.py [--scenarios slow-link,killed] [--seeds 1,2]
                                   [--healthy 20] [--output benchmarks/results/diagnosis.md]

In a laboratory, as root. Each scenario is a run of its own to which something known is done:
a link has a limit, a collate function sleeps, another program takes a core, a process is
stopped, a model is trained too long. The report of the run is then held to it: is the verdict
right, is the culprit (the rank, the direction, the step), and how far is the share of the cause
from the truth? How that is known says `diagnosis/truth.py`: from a twin of the run without the
fault. When the training itself said it (`found` events) is scored as well, and so are findings
that the fault does not explain. `--healthy` runs with nothing wrong follow, of three kinds in
turn; any finding, and any cause but computing, is a false alarm.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from diagnosis.course import make_run
from diagnosis.judge import Judgement, false_alarms, healthy
from diagnosis.scenarios import HEALTHY, SCENARIOS
from diagnosis.table import legend, summary, table
from diagnosis.truth import Twins
from measure import machine

FIRST_HEALTHY_SEED = 101


def main() -> None:
    """Run what was asked for, and print a page of Markdown."""
    options = _options()
    names = options.scenarios.split(",") if options.scenarios else []
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise SystemExit(f"no scenario {unknown[0]}; there are: {', '.join(SCENARIOS)}")
    seeds = [int(word) for word in options.seeds.split(",")]
    began = time.time()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(options.home or directory)
        judged = _judge_all(names, seeds, home)
        alarms = [_healthy(home, number) for number in range(options.healthy)]
    page = _page(judged, alarms, time.time() - began)
    print(page)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page, "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--healthy", type=int, default=20, help="runs with nothing wrong")
    parser.add_argument("--output", type=Path, help="a file for the page")
    parser.add_argument("--home", help="a directory in which all runs are kept")
    return parser.parse_args()


def _judge_all(names: list[str], seeds: list[int], home: Path) -> dict[str, list[Judgement]]:
    judged: dict[str, list[Judgement]] = {name: [] for name in names}
    for seed in seeds:
        twins = Twins(home, seed)
        for name in names:
            scenario, began = SCENARIOS[name], time.time()
            outcome = make_run(scenario.course, home, f"{name}-{seed}", seed)
            found = scenario.judge(outcome, scenario.course, twins)
            found = replace(found, false=false_alarms(outcome, found.also, scenario.implied))
            judged[name].append(found)
            _tell(f"{name} {seed}", found, time.time() - began)
    return judged


def _healthy(home: Path, number: int) -> Judgement:
    course, seed = HEALTHY[number % len(HEALTHY)], FIRST_HEALTHY_SEED + number
    began = time.time()
    outcome = make_run(course, home, f"healthy-{seed}", seed)
    found = healthy(outcome, course, Twins(home, seed))
    _tell(f"healthy {seed}", found, time.time() - began)
    return found


def _tell(name: str, found: Judgement, seconds: float) -> None:
    marks = ["right" if found.verdict else "WRONG"]
    if found.culprit is not None:
        marks.append(f"culprit {'right' if found.culprit else 'WRONG'}")
    if found.true is not None:
        told = "nothing" if found.claimed is None else f"{found.claimed:.1%}"
        marks.append(f"true share {found.true:.1%}, told {told}")
    if found.live and found.live.said:
        marks.append(f"said after {found.live.said}")
    if found.false:
        marks.append(f"FALSE {', '.join(found.false)}")
    line = f"{name} ({seconds:.0f} s): {', '.join(marks)}; {found.said}"
    print(line, file=sys.stderr, flush=True)


def _page(judged: dict[str, list[Judgement]], alarms: list[Judgement], seconds: float) -> str:
    lines = [
        "# Does the report name what is wrong?",
        "",
        f"`python benchmarks/diagnosis.py {' '.join(sys.argv[1:])}`, "
        f"{time.strftime('%Y-%m-%d')}, {machine()}; {seconds / 60:.0f} min",
        "",
    ]
    if judged:
        lines += [*table(judged, SCENARIOS), "", *legend(judged, SCENARIOS), ""]
        lines += summary(judged)
    if alarms:
        wrong = [alarm for alarm in alarms if not alarm.verdict]
        lines.append(f"* false alarms in {len(alarms)} healthy runs: {len(wrong)} (goal: 0)")
        lines += [f"  * {alarm.said}" for alarm in wrong]
    missed = [
        f"* {name}: {row.said}"
        for name, rows in judged.items()
        for row in rows
        if not row.is_flawless
    ]
    return "\n".join([*lines, *(["", "Wrong:", "", *missed] if missed else []), ""])


if __name__ == "__main__":
    main()
