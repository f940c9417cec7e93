"""What the page shows now, and what a browser that has an older state of it lacks."""

import json
import secrets
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from unisono.live_page.patches import patch_of

KEPT_MESSAGES = 8  # a round of the reader makes a few


@dataclass
class Hub:
    """The parts of the page by name, and at which version of the page each last changed.

    Browsers keep the number of the version that they have. One that is a few versions behind
    gets patches; one that has missed more gets the parts that changed since, whole: nothing
    waits in a queue for a slow browser. `epoch` tells versions of another server apart.
    """

    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    version: int = 0
    _parts: dict[str, str] = field(default_factory=dict)
    _changed: dict[str, int] = field(default_factory=dict)
    _latest: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEPT_MESSAGES))

    def update(self, parts: dict[str, str]) -> bool:
        """Take new texts of some parts; return whether any differs."""
        new = {name: text for name, text in parts.items() if self._parts.get(name) != text}
        if not new:
            return False
        self.version += 1
        patches = {
            name: patch_of(self._parts[name], text) if name in self._parts else {"whole": text}
            for name, text in new.items()
        }
        self._parts.update(new)
        self._changed.update(dict.fromkeys(new, self.version))
        self._latest.append(self._message(patches))
        return True

    def since(self, version: int) -> bytes:
        """Return the messages for a browser that has this version; 0 means that it has none."""
        behind = self.version - version
        if version and behind <= len(self._latest):
            return b"".join(islice(self._latest, len(self._latest) - behind, None))
        missed = {
            name: {"whole": self._parts[name]}
            for name, changed in self._changed.items()
            if changed > version
        }
        return self._message(missed)

    def known(self, identity: str) -> int:
        """Return the version that an identity names, 0 if it is of another server."""
        epoch, _, version = identity.partition("-")
        known = int(version) if version.isdecimal() and len(version) < 12 else 0
        return known if epoch == self.epoch and known <= self.version else 0

    def _message(self, patches: dict[str, dict[str, Any]]) -> bytes:
        data = json.dumps(patches, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate can stand in no UTF-8; JSON keeps line breaks out of the message.
        return f"id: {self.epoch}-{self.version}\ndata: {data}\n\n".encode("utf-8", "replace")
