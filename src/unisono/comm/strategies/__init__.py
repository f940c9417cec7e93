"""How replicas come to the same weights: one file a strategy, with what they share."""
