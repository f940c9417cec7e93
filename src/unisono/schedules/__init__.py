"""Learning-rate schedules: a schedule is a function from the step to the rate.

To add one, write a file next to these and name its class below.
"""

from unisono.schedules.constant import Constant
from unisono.schedules.cosine import Cosine
from unisono.schedules.inverse_sqrt import InverseSqrt
from unisono.schedules.linear import Linear
from unisono.schedules.transformer import Transformer

Schedule = Transformer | InverseSqrt | Cosine | Linear | Constant

SCHEDULES: dict[str, type[Schedule]] = {
    "transformer": Transformer,
    "inverse_sqrt": InverseSqrt,
    "cosine": Cosine,
    "linear": Linear,
    "constant": Constant,
}
