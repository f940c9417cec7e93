"""Two minutes that prove an installation: on its devices, over its network, through a crash."""
