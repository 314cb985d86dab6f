"""What can be asked of the serving world, and how it is answered."""
