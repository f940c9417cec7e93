"""What one process finds out about the clock of another."""

import threading
import time
from collections import Counter

from torch.distributed import HashStore

from unisono.comm.bootstrap.store import CLOCK_ROUNDS, answer_clock, ask_clock
from unisono.comm.waiting import Waiting


def test_the_quickest_of_some_answers_counts():
    store, answered = HashStore(), Counter()

    def answer():
        time.sleep(1.0)  # so that the first answer may be off by half a second
        while answered[3] < CLOCK_ROUNDS:
            answer_clock(store, [3], answered)

    thread = threading.Thread(target=answer)
    thread.start()
    clock = ask_clock(store, 3, Waiting("", 60))
    thread.join()
    assert abs(clock.ahead) <= clock.uncertainty < 0.5
    assert answered == {3: CLOCK_ROUNDS}
