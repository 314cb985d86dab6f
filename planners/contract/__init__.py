"""What a planner of placements is given and keeps, and how one is found by name: shipped, installed, or in a file."""
