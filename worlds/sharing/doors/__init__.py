"""What can be asked of the sharing world, and how it is answered."""
