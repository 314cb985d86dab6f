"""Trace files: read in bounded memory, with every error reported with its line.

`csv` and `parquet` are the formats, `tabular` what both have in common, `chunks` the fast reader, and `complaints` the
slow one that finds out which line is wrong.
"""
