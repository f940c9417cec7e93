"""What a machine does while it trains: a small process of its own beside the workers.

It looks once a second at the network, the cores, the memory, the disks and the GPUs, and
writes down what it sees. It is a process and not a thread of a worker: a thread would take
Python's lock from the training, and could not look while the worker is held up. No torch here.
"""
