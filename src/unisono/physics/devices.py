"""How fast devices compute: from data sheets, with the share of it that training reaches.

Peaks are the makers' figures for dense products, in FLOP/s: `fp32` without tensor cores,
`half` for fp16 or bf16 on tensor cores (on a P100, which has none, for fp16). How much of a
peak a Transformer reaches depends on its width and its batches; the shares below are what
`simulate` assumes unless it is told better, and a probe on the real device replaces them.
"""

from dataclasses import dataclass

from unisono.errors import ConfigError

TERA, GIGA = 1e12, 1e9


@dataclass(frozen=True)
class Device:
    """A processor: peak rates, memory, power limit, and what training makes of the peaks."""

    name: str
    fp32: float
    half: float
    memory: float
    watts: float
    fp32_share: float = 0.45
    half_share: float = 0.20

    def peak(self, precision: str) -> float:
        """Return the FLOP/s of the data sheet."""
        return self.fp32 if precision == "fp32" else self.half

    def rate(self, precision: str) -> float:
        """Return the FLOP/s that training reaches with "fp32", "bf16" or "fp16"."""
        share = self.fp32_share if precision == "fp32" else self.half_share
        return self.peak(precision) * share


DEVICES = {
    device.name: device
    for device in (
        Device("V100", 15.7 * TERA, 125 * TERA, 16 * GIGA, 250),
        Device("P100", 9.5 * TERA, 19.0 * TERA, 16 * GIGA, 250, half_share=0.40),
        Device("T4", 8.1 * TERA, 65 * TERA, 16 * GIGA, 70),
        Device("A100", 19.5 * TERA, 312 * TERA, 40 * GIGA, 400),
        Device("H100", 67 * TERA, 989 * TERA, 80 * GIGA, 700, half_share=0.15),
        Device("L4", 30.3 * TERA, 121 * TERA, 24 * GIGA, 72),
        Device("RTX4090", 82.6 * TERA, 165 * TERA, 24 * GIGA, 450, fp32_share=0.35),
    )
}


def device_called(name: str) -> Device:
    """Return a device by its name, however it is written."""
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


def measured_cpu(flops_per_second: float, memory: float) -> Device:
    """Return a processor of which a probe has found the rate of products."""
    rate = flops_per_second
    return Device("CPU", rate, rate, memory, 0.0, fp32_share=0.75, half_share=0.75)
