"""What a worker tells the sampler of its machine.

How machines are sampled, as a user writes it.
"""

import msgspec


class SamplerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Sample for the run in directory `run`, whose processes here are `pids`.

    `rank` is that of the worker that started the sampler, `every` the seconds between looks.
    `gpus` are those of all these processes, as `CUDA_VISIBLE_DEVICES` names them.
    """

    run: str
    rank: int
    pids: tuple[int, ...]
    every: float
    gpus: tuple[str, ...] = ()


class Monitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Look at the machines `every` so often; a fifth as often after an hour."""

    on: bool = True
    every: str = "1 s"
