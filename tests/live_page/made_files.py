"""Made-up runs as files, as the processes and samplers of a run would have written them."""

from unisono.records.events import to_line
from unisono.records.monitor_events import to_line as sampled_line

CONFIG = '[train]\nmax_steps = 400\n[cost]\nper_machine_hour = 3.6\ncurrency = "EUR"\n'


def write_run(directory, run, config=CONFIG):
    """Write what a run has recorded; return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(config)
    told = {rank: list(steps) for rank, steps in run.ranks.items()}
    for start in run.starts:
        told.setdefault(start.rank, []).append(start)
    kinds = (run.validations, run.saves, run.warnings, run.tests, run.ends, run.found)
    told.setdefault(0, []).extend(event for events in kinds for event in events)
    for rank, events in told.items():
        # A start comes before the update that it makes at the same moment.
        events.sort(key=lambda event: (event.time, type(event).__name__))
        add_events(directory, events, rank)
    for rank, log in run.machines.items():
        lines = [sampled_line(event) for event in (*log.machines, *log.samples)]
        add_lines(directory / "monitor" / f"rank-{rank:04d}.jsonl", lines)
    return directory


def add_events(directory, events, rank=0):
    """Add events to the file of a process."""
    lines = [to_line(event) for event in events]
    add_lines(directory / "events" / f"rank-{rank:04d}.jsonl", lines)


def add_lines(path, lines):
    """Add lines to a file."""
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
