"""Who is still there: a watchman beside every process of a run, and limits on its sections.

A process that waits for another inside of the backend can neither look around nor speak. So
each one starts a small process without torch, its watchman, that outlives it long enough to
tell. No torch here, and no `torch.distributed`.
"""
