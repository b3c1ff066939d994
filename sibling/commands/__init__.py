"""What all commands share: output, options, names with suggestions, and exit codes."""
