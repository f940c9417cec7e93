"""torchrun on a machine whose clock is behind: `late_clock.py SECONDS MODULE ARGUMENT …`."""

import datetime
import runpy
import sys
import time

from torch.distributed.elastic.rendezvous import dynamic_rendezvous

BEHIND, MODULE = float(sys.argv[1]), sys.argv[2]
right = time.time


class Late(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) - datetime.timedelta(seconds=BEHIND)


time.time = lambda: right() - BEHIND
dynamic_rendezvous.datetime = Late
sys.argv = sys.argv[2:]
runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
