"""What a person should know of a whole run besides its hours."""

from unisono.physics.measured import Measured
from unisono.physics.way import Way
from unisono.units import duration

MUCH = 0.05  # of the run
EXACT = ("ddp", "all_reduce", "auto")


def notes_of_run(measured: Measured, way: Way) -> list[str]:
    """Return what in the course of the run is not like its usual update, or not foretold."""
    job, course, notes = measured.job, way.course, []
    if measured.machines == 1 and len(measured.processes) > 1 and job.strategy not in EXACT:
        notes.append(
            f'on one machine there is no network to spare: "{job.strategy}" was not judged, '
            "the line is that of ddp"
        )
    if course.together:
        count = f"{job.warmup_steps:,} updates at the beginning"
        closing = job.closing_steps if way.exchange.behind else 0
        count += f" and {closing:,} at the end" if closing else ""
        how = "exchanged exactly" if way.exchange.narrow else "made together"
        share = course.together * course.together_seconds / course.seconds
        notes.append(
            f"{count} are {how} and take {duration(course.together_seconds)} each, "
            f"{share:.0%} of the run (`sync.warmup_steps`): hours, waiting and speed count them"
        )
    meeting = course.meetings * course.meeting_seconds
    if course.updates and meeting > MUCH * course.seconds:
        notes.append(
            f"machines come together {course.meetings:,} times, before evaluations and "
            f"checkpoints, for {duration(course.meeting_seconds)} each, "
            f"{meeting / course.seconds:.0%} of the run: raise `validation.every_steps` and "
            "`checkpoint.every_steps`"
        )
    return notes
