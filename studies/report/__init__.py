"""The report of a study: one page that works offline, figures as PNG, tables as CSV and Parquet."""
