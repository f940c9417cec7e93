"""How fast devices compute: from data sheets, and what software reaches of them.

Peaks are the makers' figures for dense products, in FLOP/s: `fp32` without tensor cores,
`tf32` and `half` (fp16 or bf16) on them. An update takes as long as its products at nearly the
peak, plus as long as memory needs for everything in between (dropout, norms, softmax, casts),
which grows with the width of a model while products grow with its square:

    1 / rate = 1 / (0.90 · peak) + 1 / (bandwidth · FLOP a byte · width / 512)

With 44 FLOP a byte in half precision and 30 in fp32 this reproduces, within 20 %, what NVIDIA
publishes for fairseq's Transformer-big (tests/cost_model/test_published.py has the figures),
and what counting the bytes and launches of our own update gives. A probe on the real device
replaces it. Trainers of 2019 reached less: `field_rate` is what V100s did in the field.
"""

from dataclasses import dataclass
from itertools import pairwise

from unisono.errors import ConfigError

TERA, GIGA = 1e12, 1e9
PRODUCT_SHARE = 0.90  # of a peak, in large products
USUAL_WIDTH = 512
# FLOP that a model of the usual width computes for each byte that memory can move.
FLOPS_PER_BYTE = {"fp32": 30.0, "tf32": 30.0, "fp16": 44.0, "bf16": 44.0}
# The same for trainers of 2019, and the share of a peak that they reached.
FIELD_FLOPS_PER_BYTE, FIELD_SHARE = 10.0, 0.40


@dataclass(frozen=True)
class Device:
    """A processor: peak rates, memory and how fast it is, power limit.

    `memory` is in bytes, `bandwidth` in bytes a second. Not all devices know `bf16` and `tf32`
    (then 0). A P100 has no tensor cores, and torch does not reach its rate for fp16.
    """

    name: str
    fp32: float
    half: float
    memory: float
    bandwidth: float
    watts: float
    bf16: bool = True
    tf32: float = 0.0

    def peak(self, precision: str) -> float:
        """Return the FLOP/s of the data sheet."""
        if precision == "tf32":
            return self.tf32 or self.fp32
        return self.fp32 if precision == "fp32" else self.half

    @property
    def fastest(self) -> str:
        """Return the precision that `train.precision = "auto"` takes."""
        if self.bf16:
            return "bf16"
        return "fp16" if self.half > self.fp32 else "fp32"

    def rate(self, precision: str, width: int = USUAL_WIDTH, prefix: str = "--") -> float:
        """Return the FLOP/s that our training of a model of this width reaches.

        In errors, `prefix` stands before the names of options; Python's have none.
        """
        precision = self._known(precision, prefix)
        products = PRODUCT_SHARE * self.peak(precision)
        memory = self.bandwidth * FLOPS_PER_BYTE[precision] * width / USUAL_WIDTH
        return 1 / (1 / products + 1 / memory)

    def field_rate(self, precision: str) -> float:
        """Return the FLOP/s that trainers of 2019 reached with a base model."""
        precision = self._known(precision)
        products = self.peak(precision) * FIELD_SHARE
        return min(products, self.bandwidth * FIELD_FLOPS_PER_BYTE)

    def _known(self, precision: str, prefix: str = "--") -> str:
        if precision == "auto":
            return self.fastest
        if precision == "bf16" and not self.bf16:
            raise ConfigError(
                f"a {self.name} cannot compute in bf16",
                where=f"{prefix}precision",
                fix="use fp16 or fp32",
            )
        return precision


def _device(
    name: str, fp32: float, half: float, memory: float, bandwidth: float, watts: float
) -> Device:
    """Return a device without bf16, in TFLOP/s, GB and GB/s."""
    return Device(
        name, fp32 * TERA, half * TERA, memory * GIGA, bandwidth * GIGA, watts, bf16=False
    )


def _ampere(
    name: str,
    fp32: float,
    half: float,
    memory: float,
    bandwidth: float,
    watts: float,
    tf32: float,
) -> Device:
    """Return a device with bf16 and TF32, in TFLOP/s, GB and GB/s."""
    sizes = (fp32 * TERA, half * TERA, memory * GIGA, bandwidth * GIGA)
    return Device(name, *sizes, watts, tf32=tf32 * TERA)


DEVICES = {
    device.name: device
    for device in (
        _device("V100", 15.7, 125, 16, 900, 250),
        _device("P100", 9.5, 9.5, 16, 732, 250),
        _device("T4", 8.1, 65, 16, 320, 70),
        _ampere("A100", 19.5, 312, 40, 1555, 400, tf32=156),
        _ampere("H100", 67, 989, 80, 3350, 700, tf32=495),
        _ampere("L4", 30.3, 121, 24, 300, 72, tf32=60),
        _ampere("RTX4090", 82.6, 165, 24, 1008, 450, tf32=82.6),
    )
}


def table_rate(full_name: str, precision: str, width: int = USUAL_WIDTH) -> float:
    """Return the rate of a GPU by the name that its driver gives; 0 if it is not known."""
    device = device_of(full_name)
    return device.rate(precision, width) if device is not None else 0.0


def device_of(full_name: str) -> Device | None:
    """Return the device of a name such as "Tesla V100-SXM2-16GB", if the table has it."""
    words = full_name.upper().replace("-", " ").split()
    pairs = [first + second for first, second in pairwise(words)]
    return next((DEVICES[name] for name in (*words, *pairs) if name in DEVICES), None)


def device_called(name: str, prefix: str = "--") -> Device:
    """Return a device by its name, in any spelling; see `Device.rate` for `prefix`."""
    plain = name.upper().replace(" ", "").replace("-", "").replace("_", "")
    if plain in DEVICES:
        return DEVICES[plain]
    if plain == "CPU":
        raise ConfigError(
            "no data sheet says what a CPU reaches in training",
            where=f"{prefix}gpu",
            fix=f"give {prefix}tflops: 0.05 to 0.1 for each core of a server is usual",
        )
    raise ConfigError(
        f"no device is called {name}",
        where=f"{prefix}gpu",
        fix=f"choose one of {', '.join(DEVICES)}, or give {prefix}tflops",
    )
