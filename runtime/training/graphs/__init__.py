"""Plans whose stages have microbatches of their own."""
