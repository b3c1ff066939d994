"""API keys: authentication and scopes."""
