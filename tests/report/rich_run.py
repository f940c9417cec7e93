"""A run that has something to show in every part of the page."""

import math
from dataclasses import replace

import msgspec

from diagnose.made_runs import (
    BEGAN,
    sample,
    saved,
    scored,
    start,
    step,
    train_loss,
    validated,
    with_clean,
)
from diagnose.made_samples import ADDRESSES, HOSTS, fading, gpu, pair
from unisono.records.events import Found, Warned

SPIKES = (150, 151, 152)


def loss_at(number):
    """The loss of an update: it falls, with some noise and one spike."""
    spike = 2.0 if number in SPIKES else 0.0
    return train_loss(number) + 0.05 * math.sin(7.0 * number) + spike


def rich_run(hosts=HOSTS, **changes):
    """Two machines with GPUs, 200 updates of a second, a link that becomes slow at step 100."""
    run = pair(
        peers=lambda rank, there: fading(there, 1000, 300, 100),
        gpus=lambda second: [gpu(150 + 40 * math.sin(second / 9), memory_used=9 * 10**9)],
        cores=lambda second: [0.6 + 0.3 * math.sin(second / 20)] * 4,
        memory_used=lambda second: 10**9 * (4 + second // 50),
    )
    validations = tuple(
        validated(n, 2.2 + 4 * math.exp(-n / 60), 30 - 28 * math.exp(-n / 60),
                  bleu_low=28 - 28 * math.exp(-n / 60), bleu_high=32 - 28 * math.exp(-n / 60))
        for n in range(20, 201, 20)
    )  # fmt: skip
    names = dict(zip(HOSTS, hosts, strict=True))
    starts = tuple(
        msgspec.structs.replace(s, device="cuda:0", host=names[s.host]) for s in run.starts
    )
    again = tuple(
        msgspec.structs.replace(
            start(rank, 2, names[host], step=60, time=BEGAN + 60.2, device="cuda:0"),
            interface="eth0",
            address=ADDRESSES[host],
        )
        for rank, host in enumerate(HOSTS)
    )
    ranks = {
        rank: tuple(
            step(
                n,
                loss=loss_at(n),
                forward=0.1,
                backward=0.15,
                optimizer=0.05,
                exchange=0.55 if rank else 0.6,
                data=0.05 if rank else 0.0,
            )
            for n in range(1, 201)
        )
        for rank in range(2)
    }
    made = replace(
        run,
        starts=(*starts, *again),
        ranks=ranks,
        validations=with_clean(validations, [v.loss - 0.1 for v in validations]),
        saves=tuple(saved(n) for n in (50, 100, 150, 200)),
        warnings=(Warned(time=BEGAN + 120, step=120, message="the disk was slow"),),
        samples={20: (sample(translation="der der"),), 200: (sample(),)},
        tests=(scored(bleu=29.4),),
        found=tuple(
            Found(time=BEGAN + n, step=n, id="x", summary="bound by the network", over=n > 30)
            for n in (30, 90)
        ),
    )  # fmt: skip
    return replace(made, **changes)
