"""The live page of a run (`unisono watch`), and the diagnosis of a run while it trains.

The page reads files only. `live_diagnosis` runs inside the leading process: a documented
exception, explained there.
"""
