"""Traces as files: cells, rows and columns read in bounded memory, and every complaint with its line."""
