"""A laboratory: virtual machines on this one, joined by links of a chosen rate.

`plan` says what it looks like, `commands` are the shell commands it consists of, `build` runs
them in order or only shows them, and `lab` is the running laboratory.
"""
