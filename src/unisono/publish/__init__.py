"""What a run reports to other programs while it trains: series of numbers, and alerts."""
