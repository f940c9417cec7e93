"""What a run will take, measured or computed before anybody pays for it."""
