"""How big is the training set, before and after cleaning?"""

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.run_files import CorpusFacts, corpus_facts
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import count, percent
from unisono.units import amount_of_bytes


def answer_training_set(case: Case) -> Answer:
    """Read it off the manifest of the corpus."""
    facts = corpus_facts(case.run.corpus)
    if facts is None:
        missing = "holds no training set" if case.run.corpus else "is not in the run directory"
        return reply("training_set", "unknown", f"corpus.json {missing}.")
    train, inputs = facts.splits["train"], facts.inputs_of("train")
    size = sum(entry.source.size + entry.target.size for entry in inputs)
    lines = sum(entry.source.lines for entry in inputs)
    return reply(
        "training_set",
        "answered",
        _summary(facts, size, lines),
        values={
            "bytes_before": size if inputs else None,
            "lines_before": lines if inputs else None,
            "tokens_before": None,
            "pairs_after": train.pairs,
            "bytes_after": train.text_bytes or None,
            "source_tokens_after": train.source_tokens,
            "target_tokens_after": train.target_tokens,
            "vocabulary": facts.vocabulary,
            "read_pairs": facts.read_pairs,
            "dropped": {reason: drop.count for reason, drop in facts.dropped.items()},
        },
        evidence=_evidence(facts),
    )


def _summary(facts: CorpusFacts, size: int, lines: int) -> str:
    train = facts.splits["train"]
    tokens = (
        f"{train.source_tokens:,} tokens of {facts.source_language} and "
        f"{train.target_tokens:,} of {facts.target_language}"
    )
    after = f"{count(train.pairs, 'sentence pair')}, {tokens}"
    if not lines:
        return f"After cleaning: {after}. Its size before cleaning is not recorded."
    before = f"{amount_of_bytes(size)} of text, {count(lines, 'pair')} of lines"
    kept = f" ({amount_of_bytes(train.text_bytes)})" if train.text_bytes else ""
    return f"Before cleaning: {before}. After: {after}{kept}."


def _evidence(facts: CorpusFacts) -> list[str]:
    lines = [
        f"{entry.split}: {side.name}, {amount_of_bytes(side.size)}, {count(side.lines, 'line')}"
        for entry in sorted(facts.inputs, key=lambda entry: entry.split != "train")
        for side in (entry.source, entry.target)
    ]
    if facts.read_pairs:
        lines.append(
            f"dropped {facts.dropped_pairs:,} of {facts.read_pairs:,} pairs read for all sets "
            f"({percent(facts.dropped_pairs / facts.read_pairs)})"
        )
    by_count = sorted(facts.dropped.items(), key=lambda item: -item[1].count)
    lines += [f"dropped, {reason}: {drop.count:,}" for reason, drop in by_count if drop.count]
    lines.append(
        f"tokens are pieces of a vocabulary of {facts.vocabulary:,}; `prepare` does not count "
        "the tokens of what it drops, so their number before cleaning is unknown"
    )
    return lines
