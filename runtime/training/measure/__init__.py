"""What stages, slices and messages of a training plan really take on this machine."""
