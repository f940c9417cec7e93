"""More threads than cores."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count


@dataclass(frozen=True)
class Oversubscribed:
    """The processes of the leading machine want more cores than it has."""

    most_threads_per_core: float = 1.0

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        cores, starts = case.run.environment.get("cores"), case.run.last_starts
        if not isinstance(cores, int) or cores < 1 or not starts:
            return ()
        here = [s for s in starts if s.host == starts[0].host and s.device == "cpu"]
        threads = sum(start.threads for start in here)
        if threads <= self.most_threads_per_core * cores:
            return ()
        processes = count(len(here), "process", "processes")
        return (
            Finding(
                id="oversubscribed",
                severity="info",
                summary=f"{processes} on {starts[0].host} compute with {threads} threads, but "
                f"it has {count(cores, 'core')}.",
                evidence=("threads that take turns on a core make each other late",),
                advice="Give each process fewer threads (`OMP_NUM_THREADS`).",
            ),
        )
