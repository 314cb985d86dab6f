"""What comes in: requests with prompt and output lengths, drawn or read."""
