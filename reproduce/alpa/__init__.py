"""Alpa (OSDI '22): its figures and tables."""
