"""TeraPipe (ICML '21): its figures and tables, by the paper's numbers."""
