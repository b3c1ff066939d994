"""The server: its processes, the application, and what happens to every request."""
