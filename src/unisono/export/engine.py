"""Search with CTranslate2 in place of our own beam search.

CTranslate2 ranks translations by another length penalty than ours. So it searches without one
and returns as many hypotheses as there are beams, and ours ranks them: the two searches keep
and end the same prefixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ctranslate2

from unisono.errors import DataError
from unisono.text.tokenizer import BEGIN_ID, PADDING_ID
from unisono.translate.beam import Hypothesis, length_penalty
from unisono.translate.settings import Decoding

TOKENS_PER_BATCH = 2048


@dataclass(frozen=True, eq=False)
class Ctranslate2Engine:
    """A loaded model and the tokens of its ids.

    With `native`, a beam and a length penalty, CTranslate2 searches as it does for others, who
    set nothing else: padding and begin are not ruled out, and its own limit of length holds.
    """

    translator: Any
    source_tokens: list[str]
    target_tokens: list[str]
    native: tuple[int, float] | None = None

    def search(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        decoding: Decoding,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each of `sources`, best first."""
        limits = [
            int(decoding.max_ratio * len(source)) + decoding.max_extra + len(prefix)
            for source, prefix in zip(sources, prefixes, strict=True)
        ]
        # A batch has one limit of length, so sentences with the same limit go together.
        places: dict[int, list[int]] = {}
        for place, limit in enumerate(limits):
            places.setdefault(limit, []).append(place)
        waiting: dict[int, Any] = {}
        for limit, some in places.items():
            texts = self._texts(self.source_tokens, [sources[n] for n in some])
            begins = self._texts(self.target_tokens, [prefixes[n] for n in some])
            waiting |= zip(some, self._begin(texts, begins, decoding, limit), strict=True)
        found = [self._hypotheses(waiting[n].result(), decoding) for n in range(len(limits))]
        self._end_at_limit(found, sources, limits, decoding)
        return [sorted(row, key=lambda one: -one.score) for row in found]

    def _texts(self, tokens: list[str], rows: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[tokens[i] for i in row] for row in rows]

    def _end_at_limit(
        self,
        found: list[list[Hypothesis]],
        sources: Sequence[Sequence[int]],
        limits: list[int],
        decoding: Decoding,
    ) -> None:
        """Let hypotheses that reached their limit end there, as in our search."""
        open_ = [
            (place, n)
            for place, row in enumerate(found)
            for n, hypothesis in enumerate(row)
            if len(hypothesis.ids) == limits[place]
        ]
        if not open_ or self.native:
            return
        scores = self.translator.score_batch(
            self._texts(self.source_tokens, [sources[place] for place, _ in open_]),
            self._texts(self.target_tokens, [found[place][n].ids for place, n in open_]),
            max_batch_size=TOKENS_PER_BATCH,
            batch_type="tokens",
            max_input_length=0,
        )
        for (place, n), score in zip(open_, scores, strict=True):
            found[place][n] = _scored(found[place][n].ids, sum(score.log_probs), decoding)

    def _hypotheses(self, found: Any, decoding: Decoding) -> list[Hypothesis]:
        ids = self.ids
        return [
            _scored(tuple(ids[token] for token in tokens), total, decoding)
            for tokens, total in zip(found.hypotheses, found.scores, strict=True)
        ]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Return the id of each target token."""
        return {token: i for i, token in enumerate(self.target_tokens)}

    def _begin(
        self,
        sources: list[list[str]],
        prefixes: list[list[str]],
        decoding: Decoding,
        limit: int,
    ) -> Any:
        ours: dict[str, Any] = {
            "beam_size": decoding.beam,
            "num_hypotheses": decoding.beam,
            "length_penalty": 0,
            "suppress_sequences": [[self.target_tokens[i]] for i in (PADDING_ID, BEGIN_ID)],
            "max_decoding_length": limit,
            "min_decoding_length": 0,
        }
        if self.native:
            beam, penalty = self.native
            ours = {"beam_size": beam, "length_penalty": penalty, "replace_unknowns": True}
        return self.translator.translate_batch(
            sources,
            target_prefix=prefixes if any(prefixes) else None,
            return_scores=True,
            max_batch_size=TOKENS_PER_BATCH,
            batch_type="tokens",
            max_input_length=0,
            asynchronous=True,
            **ours,
        )


def _scored(ids: tuple[int, ...], total: float, decoding: Decoding) -> Hypothesis:
    return Hypothesis(ids, total / length_penalty(len(ids), decoding), total)


def load_engine(
    directory: Path, tokens: tuple[list[str], list[str]], quantization: str, workers: int
) -> Ctranslate2Engine:
    """Load an export for `workers` batches at a time, each on one core."""
    try:
        translator = ctranslate2.Translator(
            str(directory),
            device="cpu",
            inter_threads=workers,
            intra_threads=1,
            compute_type="default" if quantization else "float32",
        )
    except (RuntimeError, ValueError) as error:
        raise DataError(
            f"CTranslate2 cannot load this model: {error}",
            where=str(directory),
            fix="export it again",
        ) from error
    return Ctranslate2Engine(translator, *tokens)
