"""Errors of requests and jobs: codes, responses, validation."""
