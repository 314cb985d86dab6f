"""The study file: YAML for people, every error with its line, and the document that it holds."""
