"""Collage's figures (PACT '22; thesis 003, chapter 2), on the backends of a CPU, from one campaign of measurements."""
