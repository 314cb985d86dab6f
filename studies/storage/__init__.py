"""The results store: SQLite, a row per point as it comes, sealed to the same bytes at the end."""
