"""Themis (NSDI '20): its figures and tables, by the paper's numbers. What they share is in the room `experiments`."""
