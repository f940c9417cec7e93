"""The parts of `unisono launch`: options, hosts, batch systems, supervision."""
