"""The types of the Python API. At run time, `__init__.py` imports each name on first use."""

from unisono.api import Curves as Curves
from unisono.api import Run as Run
from unisono.api import get_corpus as get_corpus
from unisono.api import open_run as open_run
from unisono.api import prepare as prepare
from unisono.api import score as score
from unisono.api import simulate as simulate
from unisono.api_torch import load as load
from unisono.api_torch import train as train
from unisono.errors import ConfigError as ConfigError
from unisono.errors import DataError as DataError
from unisono.errors import RunError as RunError
from unisono.errors import UnisonoError as UnisonoError

__version__: str
