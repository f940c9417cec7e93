"""Several real processes, started once a session and handed one function after another."""

import multiprocessing
import os
import socket
import traceback

# Of an exchange: so long the others wait for one that has failed. On a busy machine a whole
# test took over two minutes; pytest's limit for a test is the only other one.
EXCHANGE_SECONDS = 600


class Ranks:
    """A group of `size` processes joined by gloo that stays up between tests.

    With `workers`, as many at a time say that they share a machine.
    """

    def __init__(self, size, workers=0):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["unisono.train.job"])  # torch is imported once
        self.size, port = size, free_port()
        self._pipes, self._processes = [], []
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, size, workers or size, port, there), daemon=True
            )
            process.start()
            there.close()  # so that its end is noticed
            self._pipes.append(here)
            self._processes.append(process)

    def run(self, function, *args):
        """Return what `function(comm, *args)` returns on each process."""
        for pipe in self._pipes:
            pipe.send((function, args))
        answers = [self._answer(pipe) for pipe in self._pipes]
        failed = [text for ok, text in answers if not ok]
        assert not failed, "\n".join(failed)
        return [value for _, value in answers]

    def close(self):
        """Send the processes home."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(timeout=20)

    def _answer(self, pipe):
        try:
            return pipe.recv()
        except EOFError:
            return False, "a process died"


def _serve(rank, size, workers, port, pipe):
    import torch

    from unisono.comm.bootstrap.join import join

    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank % workers),
        LOCAL_WORLD_SIZE=str(workers),
        GROUP_RANK=str(rank // workers),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo",
    )
    interface = "lo" if workers < size else ""
    comm = join("cpu", timeout_seconds=EXCHANGE_SECONDS, interface=interface)
    torch.set_num_threads(1)
    while (job := pipe.recv()) is not None:
        function, args = job
        try:
            pipe.send((True, function(comm, *args)))
        except Exception:  # noqa: BLE001  the test must see it, whatever it is
            pipe.send((False, f"rank {rank}:\n{traceback.format_exc()}"))
    comm.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
