"""Themis (NSDI '20): its figures and tables."""
