"""Which pairs make up each update, and how they become tensors."""
