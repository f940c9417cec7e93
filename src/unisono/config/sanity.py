"""Settings that are valid one by one but cannot work together."""

from typing import get_args

import msgspec

from unisono.config.settings import Data, Freezable, Settings, Start, TextPair
from unisono.cost_model import strategies
from unisono.errors import ConfigError, suggest
from unisono.models.settings import check_choices
from unisono.schedules import Cosine, LinearDecay
from unisono.text.normalise import Normalisation, tag_fault
from unisono.units import seconds_of

LEAST_LOST_AFTER = 4.0  # seconds
LEAST_EVERY = 0.1


def check_text(settings: Settings, *, where: str) -> None:
    """Raise a ConfigError for the first setting that makes a corpus impossible."""
    _check_data(settings.data, where)
    _check_pieces(settings, where)
    _check_tags(settings, where)


def check_training(settings: Settings, *, where: str) -> None:
    """Raise a ConfigError for the first combination that makes training impossible."""
    _check_model(settings, where)
    _check_start(settings.start, where)
    _check_limits(settings, where)
    _check_batching(settings, where)
    _check_schedule(settings, where)
    _check_times(settings, where)
    _check_sync(settings, where)
    if settings.validation.best != "loss" and not settings.validation.bleu:
        raise ConfigError(
            "the best checkpoint cannot be chosen by BLEU or chrF while `bleu = false`",
            where=f"{where} [validation]",
            fix='set `bleu = true` or `best = "loss"`',
        )


def _check_data(data: Data, where: str) -> None:
    for number, pair in enumerate(data.train, start=1):
        _check_pair(pair, f"{where} [data.train] number {number}")
    if data.valid is not None:
        _check_pair(data.valid, f"{where} [data.valid]")
    if data.test is not None:
        _check_pair(data.test, f"{where} [data.test]")


def _check_pair(pair: TextPair, where: str) -> None:
    named = [name for name in ("source", "target") if getattr(pair, name)]
    if pair.tsv and named:
        raise ConfigError(
            f"both `tsv` and `{named[0]}` are given",
            where=where,
            fix="name one file of columns, or two files",
        )
    if pair.tsv and pair.columns[0] == pair.columns[1]:
        raise ConfigError(
            f"source and target are both column {pair.columns[0]}",
            where=where,
            fix="set `columns = [1, 2]`: the numbers of the source's and the target's column",
        )
    if not pair.tsv and len(named) < 2:
        missing = "target" if "source" in named else "source"
        raise ConfigError(
            f"`{missing}` is missing", where=where, fix=f"add `{missing}`, or name one `tsv`"
        )


def _check_pieces(settings: Settings, where: str) -> None:
    corpus = settings.corpus
    if corpus.joint and corpus.target_pieces_model:
        raise ConfigError(
            "`target_pieces_model` is given, but both languages share one model of pieces",
            where=f"{where} [corpus] target_pieces_model",
            fix="set `joint = false`, or leave `target_pieces_model` out",
        )
    if not corpus.joint and bool(corpus.pieces_model) != bool(corpus.target_pieces_model):
        raise ConfigError(
            "with `joint = false` each language needs its own pieces; only one model is given",
            where=f"{where} [corpus]",
            fix="set both `pieces_model` and `target_pieces_model`, or neither",
        )


def _check_tags(settings: Settings, where: str) -> None:
    corpus, data = settings.corpus, settings.data
    tags = [(f"{where} [corpus] tags", tag) for tag in corpus.tags]
    tags += [
        (f"{where} [data.train] number {number}", pair.tag)
        for number, pair in enumerate(data.train, start=1)
        if pair.tag
    ]
    held_out = {"valid": data.valid, "test": data.test}
    tags += [(f"{where} [data.{name}]", p.tag) for name, p in held_out.items() if p and p.tag]
    normalise = Normalisation(corpus.plain_quotes, corpus.lowercase)
    for place, tag in tags:
        wrong = tag_fault(tag)
        [written] = normalise([tag.replace("\n", " ")])
        if not wrong and written != tag:
            wrong = f"normalising the text turns it into {written}"
        if wrong:
            raise ConfigError(
                f"`{tag}` cannot be a tag: {wrong}", where=place, fix="use a name like <BT>"
            )


def _check_model(settings: Settings, where: str) -> None:
    model, longest, decoding = settings.model, settings.corpus.max_pieces, settings.decoding
    check_choices(model, where=f"{where} [model]")
    translation = int(decoding.max_ratio * longest) + decoding.max_extra
    needed = max(longest, translation) + 1
    if model.positions == "learned" and model.max_positions < needed:
        raise ConfigError(
            f"{model.max_positions} learned positions are too few: a sentence has up to "
            f"{longest + 1} tokens, and its translation may grow to {translation + 1}",
            where=f"{where} [model] max_positions",
            fix=f"set `max_positions = {needed}` or more, or lower `corpus.max_pieces`, "
            "`decoding.max_ratio` or `decoding.max_extra`",
        )


def _check_start(start: Start, where: str) -> None:
    for name in ("freeze", "old_test"):
        if getattr(start, name) and not start.from_:
            raise ConfigError(
                f"`{name}` is given, but nothing to start from",
                where=f"{where} [start] {name}",
                fix=f"name a run or a bundle in `from`, or leave `{name}` out",
            )
    if set(start.freeze) == set(get_args(Freezable)):
        raise ConfigError(
            "everything is frozen: nothing is left to train",
            where=f"{where} [start] freeze",
            fix='leave one part out, such as `freeze = ["embeddings", "encoder"]`',
        )
    if len(start.old_test) not in (0, 2):
        raise ConfigError(
            f"an old test set is two files, not {len(start.old_test)}",
            where=f"{where} [start] old_test",
            fix='write `old_test = ["test.en", "test.de"]`: source and target',
        )


def _check_limits(settings: Settings, where: str) -> None:
    train = settings.train
    if train.max_time:
        seconds_of(train.max_time, where=f"{where} [train] max_time")
    if not (train.max_steps or train.max_epochs or train.max_time or train.patience):
        raise ConfigError(
            "nothing says when to stop training",
            where=f"{where} [train]",
            fix="set one of max_steps, max_epochs, max_time, patience",
        )


def _check_times(settings: Settings, where: str) -> None:
    seconds_of(settings.sync.timeout, where=f"{where} [sync] timeout")
    lost_after = seconds_of(settings.sync.lost_after, where=f"{where} [sync] lost_after")
    if lost_after < LEAST_LOST_AFTER:
        raise ConfigError(
            f'"{settings.sync.lost_after}" is too short to tell a lost process from a slow one',
            where=f"{where} [sync] lost_after",
            fix=f'set it to "{LEAST_LOST_AFTER:g} s" or more; usual is "10 s"',
        )
    every = seconds_of(settings.monitor.every, where=f"{where} [monitor] every")
    if every < LEAST_EVERY:
        raise ConfigError(
            f'"{settings.monitor.every}" is too often: sampling would slow down the training',
            where=f"{where} [monitor] every",
            fix=f'set it to "{LEAST_EVERY:g} s" or more; usual is "1 s"',
        )
    for name, text in msgspec.structs.asdict(settings.limits).items():
        if text:
            seconds_of(text, where=f"{where} [limits] {name}")


def _check_sync(settings: Settings, where: str) -> None:
    sync, last = settings.sync, settings.train.max_steps
    known = [*strategies.STRATEGIES, strategies.AUTO]
    if sync.strategy not in known:
        raise ConfigError(
            f"there is no strategy {sync.strategy!r}",
            where=f"{where} [sync] strategy",
            fix=suggest(sync.strategy, known),
        )
    if last:
        check_warm_up(settings, last, where=f"{where} [sync] warmup_steps")
    if strategies.is_local(sync.strategy) and sync.closing_steps and not last:
        raise ConfigError(
            "when the closing updates begin is not known, because the run has no `max_steps`",
            where=f"{where} [sync] closing_steps",
            fix="set `train.max_steps`, or `closing_steps = 0`",
        )


def check_warm_up(settings: Settings, updates: int, *, where: str) -> None:
    """Raise a ConfigError if a run of `updates` ends before its strategy begins."""
    sync, last = settings.sync, settings.train.max_steps
    how = strategies.warm_up_of(sync.strategy)
    if not how:
        return
    # The closing updates are those before `max_steps`, whatever ends the run before.
    closing = max(0, sync.closing_steps - (last - updates)) if last else 0
    closing = closing if strategies.is_local(sync.strategy) else 0
    if sync.warmup_steps + closing >= updates:
        fewer = max(0, updates - closing) // 10
        raise ConfigError(
            f"`{sync.strategy}` would never begin: {sync.warmup_steps + closing} updates are "
            f"{how}, and the run ends after {updates}",
            where=where,
            fix=f"set `warmup_steps = {fewer}`, or "
            f'`strategy = "{strategies.DEFAULT_STRATEGY}"`',
        )


def _check_batching(settings: Settings, where: str) -> None:
    batching, longest = settings.batching.filled(), settings.corpus.max_pieces + 1
    if batching.tokens_per_micro_batch > batching.tokens_per_update:
        raise ConfigError(
            f"a micro-batch of {batching.tokens_per_micro_batch} tokens is larger than the "
            f"update of {batching.tokens_per_update} it is a part of",
            where=f"{where} [batching]",
            fix=f"set `tokens_per_micro_batch = {batching.tokens_per_update}` or less",
        )
    if longest > batching.tokens_per_micro_batch:
        # The micro-batch may only have followed an update that is itself too small.
        small = "update" if longest > batching.tokens_per_update else "micro_batch"
        raise ConfigError(
            f"a sentence of {longest} tokens does not fit into a micro-batch of "
            f"{batching.tokens_per_micro_batch}",
            where=f"{where} [batching] tokens_per_{small}",
            fix=f"raise it to {longest} or more, or lower `corpus.max_pieces`",
        )
    if batching.bpe_dropout and _learns_unigrams(settings):
        raise ConfigError(
            "BPE-dropout leaves merges out, and unigram pieces are not made by merging",
            where=f"{where} [batching] bpe_dropout",
            fix='set `bpe_dropout = 0`, or `corpus.pieces = "bpe"`',
        )


def _learns_unigrams(settings: Settings) -> bool:
    return settings.corpus.pieces == "unigram" and not settings.corpus.pieces_model


def _check_schedule(settings: Settings, where: str) -> None:
    schedule = settings.schedule
    if (
        isinstance(schedule, Cosine | LinearDecay)
        and schedule.total_steps <= schedule.warmup_steps
    ):
        raise ConfigError(
            f"the schedule ends at step {schedule.total_steps}, before its warm-up of "
            f"{schedule.warmup_steps} steps does",
            where=f"{where} [schedule]",
            fix="raise `total_steps` or lower `warmup_steps`",
        )
