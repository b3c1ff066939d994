"""The service around ``algorithms``: datasets, jobs, models and inference over HTTP."""
