"""How a decoder is spread over GPUs, and what that communicates."""
