"""Is a model still as good as it promised, and its rows as they were? Tests for every day."""
