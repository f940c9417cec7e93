"""From what a launcher left in the environment to a process group that has formed."""
