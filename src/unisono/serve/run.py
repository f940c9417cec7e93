"""Run a server from its start to its end."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from unisono.serve.access import ApiKeys
from unisono.serve.app import TranslationApp
from unisono.serve.http_server import new_server
from unisono.serve.metrics import ServeMetrics
from unisono.serve.service import TranslationService
from unisono.serve.settings import ServeLimits, ServeWorkers


async def run_server(
    bound: socket.socket,
    models: Sequence[Path],
    workers: ServeWorkers,
    keys: ApiKeys,
    limits: ServeLimits,
    tell: Callable[[str], None],
) -> None:
    """Serve `models` at the address of `bound` until a signal ends it.

    `tell` gets the news: that the server is ready, that models were replaced, that it stops.
    """
    metrics = ServeMetrics()
    service = TranslationService(models, workers, limits, metrics, tell)
    await service.start()
    try:
        application = TranslationApp(service, keys, limits, metrics).application()
        server = new_server(application, limits)
        host, port = bound.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        pairs = ", ".join(" → ".join(model.pair) for model in service.current.models)
        tell(f"serving {pairs} on http://{shown}:{port}")
        await server.serve(sockets=[bound])
        tell("stopped; everything that was accepted has been answered")
    finally:
        await asyncio.shield(service.close())
