"""The paths that a server answers, in the protocol of LibreTranslate."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.resources import files
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unisono.serve.access import ApiKeys, RateLimit
from unisono.serve.languages import is_detector_installed, language_name
from unisono.serve.metrics import CONTENT_TYPE, ServeMetrics
from unisono.serve.requests import RequestError, parse_fields, parse_text, parse_texts
from unisono.serve.service import TextAnswer, TranslationService
from unisono.serve.settings import MOST_ALTERNATIVES, ServeLimits
from unisono.serve.translation_pool import TranslationFailedError

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
DRAINED_BYTES = 8_000_000
_GONE = 499  # the client closed the connection: for the metrics, nobody reads the answer


class TranslationApp:
    """The handlers of all paths, and what they share."""

    def __init__(
        self,
        service: TranslationService,
        keys: ApiKeys,
        limits: ServeLimits,
        metrics: ServeMetrics,
    ) -> None:
        self._service, self._keys, self._limits = service, keys, limits
        self._metrics, self._rate = metrics, RateLimit(limits.requests_per_minute)
        self._pages = {
            path: ((files("unisono.serve") / "web" / name).read_bytes(), kind)
            for path, (name, kind) in PAGES.items()
        }

    def application(self) -> Starlette:
        """Return the application for a server."""
        get = {
            "/languages": self.languages,
            "/frontend/settings": self.frontend_settings,
            "/health": self.health,
            "/metrics": self.metrics_page,
            **dict.fromkeys(PAGES, self.page),
        }
        post = {"/translate": self.translate, "/detect": self.detect}
        routes = [
            *(Route(path, self._answering(handler)) for path, handler in get.items()),
            *(
                Route(path, self._answering(handler), methods=["POST"])
                for path, handler in post.items()
            ),
        ]
        handlers: Any = {HTTPException: _http_error, Exception: _bug}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        fields = await self._admitted(request)
        asked = parse_texts(fields, self._limits)
        answers, detected = await self._unless_gone(request, self._service.translate(asked))
        told: dict[str, Any] = {"translatedText": [answer.text for answer in answers]}
        if asked.alternatives:
            told["alternatives"] = [answer.alternatives for answer in answers]
        if detected:
            found = {"language": detected.language, "confidence": detected.confidence}
            told["detectedLanguage"] = [found] * len(answers)
        if asked.wants_sentences:
            told["sentences"] = [_sentences(answer) for answer in answers]
        if not asked.is_list:
            told = {name: values[0] for name, values in told.items()}
        return JSONResponse(told)

    async def detect(self, request: Request) -> Response:
        """Say which language a text is in."""
        fields = await self._admitted(request)
        found = await self._service.detect(parse_text(fields, self._limits))
        return JSONResponse(
            [{"confidence": one.confidence, "language": one.language} for one in found]
        )

    async def languages(self, request: Request) -> Response:
        """List the languages."""
        return JSONResponse(self._service.languages())

    async def frontend_settings(self, request: Request) -> Response:
        """Say what a web page has to know."""
        source, target = self._service.current.models[0].pair
        language = {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        }
        return JSONResponse(
            {
                "apiKeys": self._keys.are_required,
                "keyRequired": self._keys.are_required,
                "charLimit": self._limits.characters,
                "alternativesLimit": MOST_ALTERNATIVES,
                "canDetect": is_detector_installed(),
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "frontendTimeout": 500,
                "language": language,
                "suggestions": False,
            }
        )

    async def health(self, request: Request) -> Response:
        """Say that the models are loaded."""
        return JSONResponse({"status": "ok", "models": len(self._service.current.models)})

    async def metrics_page(self, request: Request) -> Response:
        """Return the counters for Prometheus."""
        return Response(self._metrics.page(), media_type=CONTENT_TYPE)

    async def page(self, request: Request) -> Response:
        """Return a file of the web page."""
        content, kind = self._pages[request.url.path]
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    async def _admitted(self, request: Request) -> dict[str, Any]:
        """Return the fields of a request whose client may ask now."""
        client = request.client.host if request.client else ""
        if not self._keys.are_required:
            self._rate.count(client)
        fields = parse_fields(
            await self._body(request), request.headers.get("content-type", "")
        )
        key = fields.get("api_key") or _bearer(request) or request.query_params.get("api_key")
        if self._keys.are_required:
            self._keys.check(key if isinstance(key, str) else "")
            self._rate.count(str(key))
        return fields

    async def _body(self, request: Request) -> bytes:
        """Return the body, if it is small enough and comes soon enough."""
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await _bounded_body(request, self._limits.body_bytes)
        except TimeoutError as error:
            raise RequestError(408, "the request took too long to arrive") from error

    async def _unless_gone(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` gives; cancel it when the client leaves or time is up."""
        job, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait(
                {job, gone},
                timeout=self._limits.translate_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if job.done():
                return job.result()
            if gone.done():
                self._metrics.abandoned.inc()
                raise ClientDisconnect
            raise RequestError(504, "the translation took too long; send less at a time")
        finally:
            for task in (job, gone):
                task.cancel()

    def _answering(self, handler: Handler) -> Handler:
        """Turn errors into answers, and count them all."""

        async def answer(request: Request) -> Response:
            began, path = time.perf_counter(), request.url.path
            try:
                response = await handler(request)
            except RequestError as error:
                response = _error(error.status, str(error), error.retry_seconds)
            except TranslationFailedError as error:
                response = _error(500, f"Cannot translate text: {error}")
            except ClientDisconnect:
                response = _error(_GONE, "the client has gone")
            response.headers.update(SAFE_HEADERS)
            self._metrics.requests.labels(path, str(response.status_code)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - began)
            return response

        return answer


def _sentences(answer: TextAnswer) -> list[dict[str, Any]]:
    return [
        {
            "source": source,
            "text": found[0].text if found else "",
            "confidence": round(found[0].confidence, 4) if found else 1.0,
            "alternatives": [
                {"text": one.text, "confidence": round(one.confidence, 4)} for one in found[1:]
            ],
        }
        for source, found in answer.sentences
    ]


async def _bounded_body(request: Request, most: int) -> bytes:
    """Return the body; read some of one that is too long, so that its sender hears why."""
    parts, length = [], 0
    declared = request.headers.get("content-length", "")
    too_long = declared.isdecimal() and int(declared[:20]) > most
    async for part in request.stream():
        length += len(part)
        too_long = too_long or length > most
        if too_long and length > DRAINED_BYTES:
            break
        if not too_long:
            parts.append(part)
    if too_long:
        raise RequestError(413, f"the request has over {most:,} bytes")
    return b"".join(parts)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _bearer(request: Request) -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def _error(status: int, message: str, retry_seconds: int = 0) -> JSONResponse:
    headers = {"Retry-After": str(retry_seconds)} if retry_seconds else {}
    if status in (408, 413, _GONE):  # the rest of the request is not wanted
        headers["Connection"] = "close"
    return JSONResponse({"error": message}, status, headers)


async def _http_error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "an error of the server; its log has more"}, 500)
