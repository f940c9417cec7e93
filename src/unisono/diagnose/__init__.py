"""From a run directory to the eleven answers: what happened, how we know, what to do."""
