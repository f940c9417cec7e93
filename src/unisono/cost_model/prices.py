"""What machines and energy cost, as the user says it (`[cost]` in a config)."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

Price = Annotated[float, msgspec.Meta(ge=0)]
Currency = Annotated[
    str, msgspec.Meta(min_length=1, max_length=8, pattern=r"^[^\s\x00-\x1f]+$")
]


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of one machine for one hour and of one kWh; 0 is not known.

    `per_host` names machines with a price of their own, `grams_co2_per_kwh` is what the user's
    electricity emits.
    """

    per_machine_hour: Price = 0.0
    currency: Currency = "USD"
    per_host: dict[str, Price] = {}
    per_kwh: Price = 0.0
    grams_co2_per_kwh: Price = 0.0

    def of_host(self, host: str) -> float:
        """Return the price of the machine `host` for an hour.

        Machines that share a name are known as "name (address)": the name's price counts.
        """
        plain = host.split(" (", 1)[0]
        return self.per_host.get(host, self.per_host.get(plain, self.per_machine_hour))

    def of_hosts(self, hosts: Iterable[str]) -> float:
        """Return the price of all `hosts` together for an hour."""
        return sum(self.of_host(host) for host in hosts)


def prices_of(config: dict[str, object]) -> Prices:
    """Return the prices in the settings of a run; none where they cannot be read."""
    try:
        return msgspec.convert(config.get("cost") or {}, Prices)
    except msgspec.ValidationError:
        return Prices()
