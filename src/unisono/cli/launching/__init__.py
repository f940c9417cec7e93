"""The parts of `unisono launch`: its options, and the targets it can train on."""
