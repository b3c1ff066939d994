"""Uploads: received as a stream, parsed in a supervised process, stored."""
