"""Datasets: upload, parsing in a process of its own, tasks."""
