"""What AlpaServe's figures share: set-ups, systems, and points of a sweep that are kept."""
