"""Commands, and their shared output, options, names with suggestions, and exit codes."""
