"""`Plan`: which groups of devices hold which models."""
