"""From source text to target text. `settings` needs no torch; everything else does."""
