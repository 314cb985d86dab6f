"""Alpa (OSDI '22): its figures and tables, by the paper's numbers. `systems` plans what they compare."""
