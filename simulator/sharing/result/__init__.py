"""What comes out: a row per app, every grant, and the metrics on them."""
