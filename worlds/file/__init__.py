"""Case and study files: YAML with the line of every value, units, and errors that name the field."""
