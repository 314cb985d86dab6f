"""What can be asked of the inference world, and how it is answered."""
