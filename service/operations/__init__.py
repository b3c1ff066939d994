"""Commands of operators: backup, restoration, and a check of the installation."""
