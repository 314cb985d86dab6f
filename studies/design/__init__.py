"""Which points a study has: fields by path, axes, ranges, and designs that are indexed without being drawn up."""
