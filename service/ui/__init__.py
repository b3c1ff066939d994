"""The pages: what a person looks at."""
