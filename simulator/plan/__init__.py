"""What plan files of every kind have in common."""
