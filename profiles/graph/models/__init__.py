"""Training graphs written operator by operator."""
