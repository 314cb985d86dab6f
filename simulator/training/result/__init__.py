"""What one simulated iteration took, and where time and memory went."""
