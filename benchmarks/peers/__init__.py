"""The other trainers: how each is installed, told of the task, started and read."""
