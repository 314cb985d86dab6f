"""The gate: a suite of planning cases, planned and scored, held pairwise against a baseline."""
