"""What can be asked of the training world, and how it is answered."""
