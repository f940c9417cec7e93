"""How fast devices compute: from data sheets, with the share of it that training reaches.

Peaks are the makers' figures for dense products, in FLOP/s: `fp32` without tensor cores,
`half` for fp16 or bf16 on tensor cores (on a P100, which has none, for fp16). What a
Transformer reaches of them is assumed, for all devices alike: a share of the peak, but no
more than its memory can feed. Both numbers are what V100s reached in the field, in fp32 and
in mixed precision (docs/explanations/cost-model.md). A probe on the real device replaces them.
"""

from dataclasses import dataclass

from unisono.errors import ConfigError

TERA, GIGA = 1e12, 1e9
USUAL_SHARE = 0.40  # of a peak
FLOPS_PER_BYTE = 10.0  # that a base model computes for each byte that memory can move


@dataclass(frozen=True)
class Device:
    """A processor: peak rates, memory and how fast it is, power limit, share of the peaks.

    `memory` is in bytes, `bandwidth` in bytes a second. Not all devices know `bf16`.
    """

    name: str
    fp32: float
    half: float
    memory: float
    bandwidth: float
    watts: float
    bf16: bool = True
    share: float = USUAL_SHARE

    def peak(self, precision: str) -> float:
        """Return the FLOP/s of the data sheet."""
        return self.fp32 if precision == "fp32" else self.half

    def rate(self, precision: str) -> float:
        """Return the FLOP/s that training reaches with "fp32", "bf16" or "fp16"."""
        if precision == "bf16" and not self.bf16:
            raise ConfigError(
                f"a {self.name} cannot compute in bf16",
                where="--precision",
                fix="use fp16 or fp32",
            )
        return min(self.peak(precision) * self.share, self.bandwidth * FLOPS_PER_BYTE)


DEVICES = {
    device.name: device
    for device in (
        Device("V100", 15.7 * TERA, 125 * TERA, 16 * GIGA, 900 * GIGA, 250, bf16=False),
        Device("P100", 9.5 * TERA, 19.0 * TERA, 16 * GIGA, 732 * GIGA, 250, bf16=False),
        Device("T4", 8.1 * TERA, 65 * TERA, 16 * GIGA, 320 * GIGA, 70, bf16=False),
        Device("A100", 19.5 * TERA, 312 * TERA, 40 * GIGA, 1555 * GIGA, 400),
        Device("H100", 67 * TERA, 989 * TERA, 80 * GIGA, 3350 * GIGA, 700),
        Device("L4", 30.3 * TERA, 121 * TERA, 24 * GIGA, 300 * GIGA, 72),
        Device("RTX4090", 82.6 * TERA, 165 * TERA, 24 * GIGA, 1008 * GIGA, 450),
    )
}


def device_called(name: str) -> Device:
    """Return a device by its name, in any spelling."""
    plain = name.upper().replace(" ", "").replace("-", "").replace("_", "")
    if plain in DEVICES:
        return DEVICES[plain]
    if plain == "CPU":
        raise ConfigError(
            "no data sheet says what a CPU reaches in training",
            where="--gpu",
            fix="give --tflops: 0.05 to 0.1 for each core of a server is usual",
        )
    raise ConfigError(
        f"no device is called {name}",
        where="--gpu",
        fix=f"choose one of {', '.join(DEVICES)}, or give --tflops",
    )
