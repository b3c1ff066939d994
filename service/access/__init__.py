"""API keys: who asks, and what they may do."""
