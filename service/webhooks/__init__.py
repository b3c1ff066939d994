"""Webhooks: events of jobs, models and aliases, signed and sent to addresses of their owner."""
