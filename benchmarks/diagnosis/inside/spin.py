"""Keep a core busy: a program that has nothing to do with the training."""

while True:
    pass
