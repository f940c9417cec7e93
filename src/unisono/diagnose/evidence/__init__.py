"""What the records of a run show: measurements and arithmetic, no judgement."""
