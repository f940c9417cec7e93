"""Brings all that a run needs to machines that have nothing but ssh and Python.

`bootstrap` and `removal` are programs that ssh hands to the Python there. `bootstrap` leaves
this Unisono behind and becomes `server`, which needs no more than Python's own library; so do
`trees`, `environment` and `relay`. All else runs here.
"""
