"""What comes out of a simulation: `columns.LLMResult` (a row per request and its metrics), `iterations` (a row per
iteration), `intervals` (how far a figure can be trusted), `views` (tables and pictures)."""
