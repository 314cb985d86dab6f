"""The simulator held against the real engine, and against measurements of others."""
