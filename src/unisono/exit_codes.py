"""How a run ends, as a number: one place for all programs that end it or read it.

0  done
1  something was found or failed
2  the settings are wrong
3  a file does not hold what it should
4  the run broke and says why
75 asked to stop, and everything is saved: the same command continues
76 a rank was lost, or a section took too long: the same command continues
130, 143  ended at once by Ctrl-C or SIGTERM (128 + signal)
"""

DONE = 0
FAILED = 1
SETTINGS = 2
DATA = 3
BROKEN = 4
PREEMPTED = 75
RESTARTABLE = 76
INTERRUPTED = 130
TERMINATED = 143

# Starting again would only meet the same end, or was not wanted.
FINAL = frozenset({DONE, SETTINGS, DATA, PREEMPTED})
# Whoever ends with one of these knows what is wrong; the others only saw that it left.
CAUSES = frozenset({SETTINGS, DATA})
