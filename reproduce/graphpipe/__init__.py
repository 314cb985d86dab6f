"""GraphPipe (thesis ch. 3): its figures and table, by the chapter's numbers. `systems` plans what they compare."""
