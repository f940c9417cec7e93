"""What a person should know of a whole run besides its hours."""

from unisono.physics.measured import Job
from unisono.physics.way import Way
from unisono.units import duration

MUCH = 0.05  # of the run


def notes_of_run(job: Job, way: Way) -> list[str]:
    """Return what in the course of the run is not like its usual update."""
    course, notes = way.course, []
    if course.together:
        count = f"{job.warmup_steps:,} updates at the beginning"
        count += f" and {job.closing_steps:,} at the end" if job.closing_steps else ""
        share = course.together * course.together_seconds / course.seconds
        notes.append(
            f"{count} are made together and take {duration(course.together_seconds)} each, "
            f"{share:.0%} of the run: hours, waiting and speed count them"
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
