"""Translation models. `settings` needs no torch; everything else does."""
