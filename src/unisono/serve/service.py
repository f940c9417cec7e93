"""Translate requests with the models of today, and take new ones when they are replaced."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unisono.errors import UnisonoError
from unisono.serve.languages import (
    Detection,
    detect,
    is_detector_installed,
    language_name,
    meant,
)
from unisono.serve.messages import RankedText
from unisono.serve.metrics import ServeMetrics
from unisono.serve.requests import AUTO, RequestError, TextRequest
from unisono.serve.served_models import ServedModel, fingerprint, open_models
from unisono.serve.settings import ServeLimits, ServeWorkers
from unisono.serve.translation_pool import TranslationPool
from unisono.text.document_parts import TranslatedText
from unisono.text.documents import Document, plan_document

LOOK_SECONDS = 1.0
RETRY_SECONDS = 5.0
LONG_CHARACTERS = 5_000


@dataclass(frozen=True)
class ModelSet:
    """The models that are served at one time, with the workers that have loaded them."""

    models: Sequence[ServedModel]
    pool: TranslationPool
    fingerprints: tuple[tuple[int, ...], ...]

    @property
    def sources(self) -> list[str]:
        return sorted({model.pair[0] for model in self.models})

    def targets(self, source: str) -> list[str]:
        return sorted(model.pair[1] for model in self.models if model.pair[0] == source)


@dataclass(frozen=True)
class TextAnswer:
    """The translation of a text, its alternatives, and each sentence with its own, in order.

    With HTML only the sentences without tags in them are there.
    """

    text: str
    alternatives: list[str]
    sentences: Sequence[tuple[str, list[RankedText]]]


class TranslationService:
    """Owns the models and their workers; says what happens to them through `tell`."""

    def __init__(
        self,
        paths: Sequence[Path],
        workers: ServeWorkers,
        limits: ServeLimits,
        metrics: ServeMetrics,
        tell: Callable[[str], None],
    ) -> None:
        self._paths, self._workers = paths, workers
        self._limits, self._metrics, self._tell = limits, metrics, tell
        self._watch: asyncio.Task[None] | None = None
        self._warm: asyncio.Task[list[Detection]] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._current: ModelSet | None = None

    async def start(self) -> None:
        """Load the models, then watch for others in their place."""
        self._current = await self._load()
        self._metrics.waiting.set_function(lambda: self.current.pool.waiting_sentences)
        self._watch = asyncio.create_task(self._watch_models())
        if is_detector_installed():  # loading it takes seconds: before somebody waits for it
            self._warm = asyncio.create_task(self.detect("."))

    async def close(self) -> None:
        """Finish what was accepted and end all workers."""
        if self._watch:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await asyncio.gather(*self._leaving, self.current.pool.close())

    @property
    def current(self) -> ModelSet:
        """Return the models that new requests get."""
        if self._current is None:
            raise RequestError(503, "the models are not loaded yet", 1)
        return self._current

    def languages(self) -> list[dict[str, object]]:
        """Return all languages, each with those it can be translated into."""
        now = self.current
        codes = {code for model in now.models for code in model.pair}
        return [
            {"code": code, "name": language_name(code), "targets": now.targets(code)}
            for code in sorted(codes)
        ]

    async def detect(self, text: str, among: Sequence[str] = ()) -> list[Detection]:
        """Return in which of these languages, or of those served, a text may be."""
        known = among or sorted({code for m in self.current.models for code in m.pair})
        return await asyncio.to_thread(detect, text, known)

    async def translate(self, asked: TextRequest) -> tuple[list[TextAnswer], Detection | None]:
        """Return the translation of each text, and the language that was detected, if any."""
        now = self.current
        number, detected = await self._choose(now, asked)
        model = now.models[number]
        documents = [await _planned(model, text, asked) for text in asked.texts]
        sentences = [sentence for one in documents for sentence in one.sentences]
        if now.pool.waiting_sentences + len(sentences) > self._limits.waiting_sentences:
            raise RequestError(503, "too much waits to be translated; try again later", 5)
        self._metrics.characters.inc(sum(map(len, asked.texts)))
        found = iter(await now.pool.translate(number, sentences, asked.alternatives + 1))
        answers = []
        for document in documents:
            translations = [next(found) for _ in document.sentences]
            answers.append(_assembled(document, translations, asked.alternatives))
        return answers, detected

    async def _choose(self, now: ModelSet, asked: TextRequest) -> tuple[int, Detection | None]:
        """Return the number of the model to translate with."""
        target = meant(asked.target, [model.pair[1] for model in now.models])
        if not target:
            raise RequestError(400, f"{asked.target} is not supported")
        detected = None
        if asked.source.lower() == AUTO:
            among = sorted({m.pair[0] for m in now.models if m.pair[1] == target})
            detected = (await self.detect("\n".join(asked.texts), among))[0]
        source = detected.language if detected else meant(asked.source, now.sources)
        if not source:
            raise RequestError(400, f"{asked.source} is not supported")
        for number, model in enumerate(now.models):
            if model.pair == (source, target):
                return number, detected
        raise RequestError(
            400,
            f"{target} is not available as a target language from {source}; there is "
            f"{', '.join(now.targets(source))}",
        )

    async def _load(self) -> ModelSet:
        models = await asyncio.to_thread(open_models, self._paths, self._workers.engine)
        before = tuple(map(fingerprint, models))
        paths = [model.path for model in models]
        observe = self._metrics.batch_sentences.observe
        pool = await TranslationPool.start(self._workers, paths, observe)
        return ModelSet(models, pool, before)

    async def _watch_models(self) -> None:
        """Take new models when files change, and new workers when one dies."""
        tried: tuple[tuple[int, ...], ...] = ()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            lost = self.current.pool.has_lost_a_worker
            found = tuple(map(fingerprint, self.current.models))
            changed = found != self.current.fingerprints and () not in found
            if lost:
                self._metrics.lost_workers.inc()
                self._tell("a worker died; new workers take its place")
            elif not changed or found == tried:
                continue
            tried = found
            try:
                new = await self._load()
            except UnisonoError as error:
                self._tell(f"the new models are not served, the old ones still are: {error}")
                await asyncio.sleep(RETRY_SECONDS if lost else 0)
                continue
            self._take(new, changed=changed)

    def _take(self, new: ModelSet, *, changed: bool) -> None:
        old, self._current = self.current, new
        if changed:
            self._metrics.replaced.inc()
            for before, after, model in zip(
                old.fingerprints, new.fingerprints, new.models, strict=True
            ):
                if before != after:
                    self._tell(
                        f"{model.path} was replaced: new requests get the model of step "
                        f"{model.about.step:,}; the old one finishes what it has begun"
                    )
        leaving = asyncio.create_task(old.pool.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


async def _planned(model: ServedModel, text: str, asked: TextRequest) -> Document:
    """Cut a text into sentences; a long one in a thread, because others wait meanwhile."""

    def plan() -> Document:
        return plan_document(
            text, markup=asked.format == "html", language=model.pair[0], fits=model.fits
        )

    return plan() if len(text) < LONG_CHARACTERS else await asyncio.to_thread(plan)


def _assembled(
    document: Document, translations: Sequence[list[RankedText]], alternatives: int
) -> TextAnswer:
    rows = [
        document.assemble([_nth(one, n) for one in translations])
        for n in range(max(map(len, translations), default=1))
    ]
    different = list(dict.fromkeys(row for row in rows if row != rows[0]))
    order = [part.index for part in document.parts if isinstance(part, TranslatedText)]
    return TextAnswer(
        rows[0],
        different[:alternatives],
        [(document.sentences[n], translations[n]) for n in order],
    )


def _nth(found: list[RankedText], n: int) -> str:
    """Return the nth translation of a sentence; one with fewer repeats its best."""
    return found[n].text if n < len(found) else found[0].text if found else ""
