"""A link between machines: how long bytes take on it.

Which processes share a machine.

What a ring all-reduce puts on the wire.

What each way of agreeing on an update puts through a machine's network card.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# What TCP carries of a shaped link's nominal rate: 16 MB took 1.37 s at 100 Mbit/s over gloo.
EFFICIENCY = 0.94


@dataclass(frozen=True)
class Link:
    """A way between two machines: bytes a second that arrive, and seconds for the first."""

    bytes_per_second: float
    latency: float = 0.0

    def seconds(self, count: float, messages: int = 1) -> float:
        """Return how long `count` bytes take, sent in `messages` one after the other."""
        if count <= 0:
            return 0.0
        return messages * self.latency + count / self.bytes_per_second


def nominal_link(bits_per_second: float, latency: float = 0.0) -> Link:
    """Return a link as it is sold, less what headers and pauses take of it."""
    return Link(bits_per_second / 8 * EFFICIENCY, latency)


def machines_of(hosts: Sequence[str], local_ranks: Sequence[int]) -> list[list[int]]:
    """Return the ranks of each machine, in the order of their first.

    A machine has each local rank once: where one comes again under the same name, it is
    another machine that is called the same.
    """
    seen: Counter[tuple[str, int]] = Counter()
    found: dict[tuple[str, int], list[int]] = {}
    for rank, place in enumerate(zip(hosts, local_ranks, strict=True)):
        found.setdefault((place[0], seen[place]), []).append(rank)
        seen[place] += 1
    return list(found.values())


def parties(machines: Sequence[Sequence[int]]) -> int:
    """Return how many speak in an exchange that goes through each machine's card once.

    On one machine there is no card to spare, and every process speaks for itself.
    """
    return len(machines) if len(machines) > 1 else sum(map(len, machines))


BYTES_PER_FLOAT32 = 4


def ring_bytes(parameters: int, ranks: int, bytes_each: int = BYTES_PER_FLOAT32) -> int:
    """Return the bytes each rank sends, and receives, to sum one gradient over `ranks`.

    The gradient goes round twice in pieces of 1/ranks, once to be summed and once to be
    handed out: 2 (R-1)/R times its size. One rank alone sends nothing. Headers of TCP, IP
    and Ethernet come on top, three to four per cent.
    """
    if ranks < 2:
        return 0
    return round(2 * (ranks - 1) / ranks * parameters * bytes_each)


SCALE_BITS = 16  # one factor in bfloat16 …
BLOCK = 64  # … for this many numbers


@dataclass(frozen=True)
class Exchange:
    """Bytes through the card of one machine, each way, and how they meet the computing.

    `every` is the number of updates between two exchanges. One that runs `behind` the
    computing of the following updates is hidden as long as it ends before the next begins;
    one that `overlaps` hides behind the backward pass of its own update, bucket by bucket.
    `bits` are those of each number. `inside_bytes` are those that each process passes on within
    its machine, in every update. A `narrow` one sends products of matrices, in sums that
    follow each other. With `late_words` the gradient of the words is sent first: what of it is
    not ready yet goes with the next.
    """

    name: str
    card_bytes: float
    every: int = 1
    overlaps: bool = True
    behind: bool = False
    exact: bool = True
    bits: int = 32
    inside_bytes: float = 0.0
    narrow: bool = False
    late_words: bool = False

    @property
    def strategy(self) -> str:
        """Return what `sync.strategy` calls it."""
        if self.narrow:
            return "powersgd"
        return "diloco" if self.behind else "ddp" if self.bits == 32 else "compressed"


def packed_bytes(numbers: int, bits: int, block: int = BLOCK) -> float:
    """Return the size of `numbers` in `bits` bits each, with one factor for every block."""
    if bits >= 32:
        return numbers * bits / 8
    blocks = -(-numbers // block)
    return (numbers * bits + blocks * SCALE_BITS) / 8


def flat_ring(numbers: int, nodes: int, processes: int, bits: int = 32) -> float:
    """Return what a ring over all `processes` sends through one card.

    With the processes of a machine side by side in the ring, one of them has its next
    neighbour on another machine, and everything goes round twice, less one piece.
    """
    return ring_bytes(numbers, processes, bits // 8) if nodes > 1 else 0.0


def hierarchical(numbers: int, nodes: int, bits: int = 32) -> float:
    """Return what goes through one card if each machine first sums within itself."""
    return ring_bytes(numbers, nodes, bits // 8)


def narrowed(rows: int, columns: int, rank: int, least: int = 2) -> int:
    """Return the numbers that PowerSGD sends of a matrix, as a product of `rank`.

    The two factors are sent if that makes `least` times fewer, and otherwise the matrix.
    """
    narrow = (rows + columns) * min(rows, columns, rank)
    return narrow if least * narrow < rows * columns else rows * columns


def gathered(payload: float, parties: int) -> float:
    """Return what goes through one card if every machine hands its bytes to all others.

    This is how packed numbers travel: they cannot be added on the way. For two machines it
    costs no more than a ring, for four three times as much as each has to say.
    """
    return (parties - 1) * payload


def meeting_bytes(numbers: int, nodes: int, *, averages: bool = False) -> float:
    """Return what goes through one card until machines that went apart have the same.

    Weights and both moments of the optimizer in 16 bits each; of many machines, weights in 32.
    Moving `averages`, if there are any, in 32.
    """
    packed = gathered(packed_bytes(numbers, 16), nodes)
    weights = min(packed, hierarchical(numbers, nodes))
    return weights + (2 + averages * 2) * hierarchical(numbers, nodes, 16)
