"""How the processes of a run are started. Plans are data and can be shown before they run."""
