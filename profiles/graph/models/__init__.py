"""Training graphs of known models, written operator by operator with `builder.Builder`."""
