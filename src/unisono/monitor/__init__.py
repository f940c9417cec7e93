"""The sampler of a machine: a small process beside the workers. No torch here.

Once a second it samples the network, the cores, the memory, the disks and the GPUs, and
records what it reads. It is a process of its own because a thread in a worker would compete
with the training for Python's lock, and could not sample while the worker is blocked.
"""
