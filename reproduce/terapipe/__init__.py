"""TeraPipe (ICML '21): its figures and tables."""
