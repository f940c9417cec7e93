"""The self-test: two minutes that prove devices, network, strategies and recovery."""
