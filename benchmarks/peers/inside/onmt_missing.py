"""Stands in for packages that OpenNMT-py imports for transforms nobody uses here.

Each of them is large. Import this first.
"""

import sys
from types import ModuleType

for name in ("spacy", "fasttext"):
    sys.modules[name] = ModuleType(name)
