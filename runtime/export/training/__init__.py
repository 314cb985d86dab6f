"""Files that start a training plan on another system."""
