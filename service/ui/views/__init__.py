"""View models: what templates show, from what the API returns."""
