"""Everything that knows there is more than one process.

No other package imports `torch.distributed`. Code elsewhere gets a `Comm` and a `Replica`, and
reads the same on one process as on a thousand. `protocol` defines these; `group` and
`collectives` implement what processes say to each other; `bootstrap` forms the group,
`strategies` exchange gradients, and `probes` measure links. `settings` needs no torch.
"""
