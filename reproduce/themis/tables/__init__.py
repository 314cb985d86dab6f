"""Themis' tables, by the paper's numbers."""
