"""Web pages of the service."""
