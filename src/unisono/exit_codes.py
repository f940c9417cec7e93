"""Exit codes: one place for all programs that end a run or read how it ended.

0  done
1  something was found or failed
2  the settings are wrong
3  a file does not contain what it should
4  the run broke and says why
75 stopped on request with everything saved: the same command continues
76 a rank was lost, or a section took too long: the same command continues
130, 143  ended at once by Ctrl-C or SIGTERM (128 + signal)
"""

DONE = 0
FAILED = 1
BAD_SETTINGS = 2
BAD_DATA = 3
RUN_BROKEN = 4
PREEMPTED = 75
RESTARTABLE = 76
INTERRUPTED = 130

# A restart would end in the same way, or nobody wants one.
NO_RESTART = frozenset({DONE, BAD_SETTINGS, BAD_DATA, PREEMPTED})
# A process with one of these codes knows the cause; the others only saw that it left.
ROOT_CAUSES = frozenset({BAD_SETTINGS, BAD_DATA})
