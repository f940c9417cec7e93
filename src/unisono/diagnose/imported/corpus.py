"""The training set of an imported run: as a rule, only its name is known."""

from unisono.diagnose.case import Case
from unisono.diagnose.imported.words import foreign_setting, records, says
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.words import listing


def answer_training_set(case: Case) -> Answer:
    """Name the files, and nothing that nobody counted."""
    names = [
        foreign_setting(case, "data_layer_params", name)
        for name in ("source_file", "target_file")
    ]
    files = [str(name) for name in names if name]
    longest = foreign_setting(case, "data_layer_params", "max_length")
    evidence = [f"file: {name}" for name in files]
    if isinstance(longest, int):
        evidence.append(f"sentences of more than {longest} pieces were left out (max_length)")
    missing = "nothing of its files, size, lines or tokens"
    if files:
        short = listing([name.rpartition("/")[2] for name in files])
        missing = f"that it was {short}, but neither their size nor their lines nor tokens"
    return reply(
        "training_set",
        "unknown",
        f"{records(case).capitalize()} {says(case)} {missing}.",
        values={"files": files or None, "bytes_before": None, "pairs_after": None},
        evidence=evidence,
        advice="`wc -lc` on the files tells lines and bytes." if files else "",
    )
