"""A forecast for programs: everything, as JSON."""

import json
from typing import Any

import msgspec

from unisono.physics.forecast import Forecast
from unisono.physics.way import Way

FORMAT = 1


def json_of(found: Forecast) -> str:
    """Return the forecast and all that was measured; what is unknown is null."""
    ways = {
        "ways": [_plain(way) for way in found.ways],
        "alone": _plain(found.alone),
        "fewer": [_plain(way) for way in found.fewer],
    }
    return json.dumps(
        {
            "format": FORMAT,
            "stop": found.stop,
            "configured": found.chosen.exchange.name,
            "advised": {
                "machines": found.advised.machines,
                "exchange": found.advised.exchange.name,
            },
            "notes": found.notes,
            "link_bytes_per_second": found.link.bytes_per_second,
            **ways,
            "measured": msgspec.to_builtins(found.measured),
        }
    )


def _plain(way: Way) -> dict[str, Any]:
    return {
        "machines": way.machines,
        "hosts": way.hosts,
        "exchange": way.exchange.name,
        "exact": way.exchange.exact,
        "bytes_per_exchange": round(way.exchange.card_bytes),
        "every": way.exchange.every,
        "bucket_mb": way.bucket_mb,
        "step_seconds": way.seconds.middle,
        "step_seconds_90": [way.seconds.low, way.seconds.high],
        "computing": way.step.computing,
        "exposed": way.step.exposed,
        "hidden": way.step.hidden,
        "waiting": way.waiting,
        "update_seconds": way.update_seconds,
        "together": way.course.together,
        "together_seconds": way.course.together_seconds,
        "meetings": way.course.meetings,
        "meeting_seconds": way.course.meeting_seconds,
        "hours": way.hours if way.course.updates else None,
        "money": way.money if way.course.updates else None,
        "speedup": way.speedup,
        "stop": way.stop,
    }
