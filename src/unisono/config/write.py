"""Settings back to TOML, every value spelled out."""

from typing import Any

import msgspec
import tomli_w

from unisono.config.settings import Settings


def to_toml(settings: Settings) -> str:
    """Return `settings` as TOML that loads to the same settings."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(settings)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
