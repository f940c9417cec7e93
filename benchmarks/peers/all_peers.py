"""Everyone who takes part, by the name one chooses them with."""

from peers.eole import Eole
from peers.fairseq import Fairseq
from peers.huggingface import Transformers
from peers.joeynmt import JoeyNMT
from peers.marian import Marian
from peers.opennmt import OpenNMT
from peers.peer import Peer

PEERS: dict[str, Peer] = {
    "fairseq": Fairseq(),
    "opennmt": OpenNMT(),
    "eole": Eole(),
    "joeynmt": JoeyNMT(),
    "transformers": Transformers(),
    "pymarian": Marian(),
}
