"""Retention: deletion of expired rows and blobs, in the background."""
