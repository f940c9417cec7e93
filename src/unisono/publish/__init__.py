"""What a run tells other programs while it goes on: series of numbers, and alerts."""
