"""Everything that knows there is more than one process.

No other package imports `torch.distributed`. Code elsewhere is given a `Comm` and a
`Replica` and reads the same on one process as on a thousand. `settings` needs no torch.
"""
