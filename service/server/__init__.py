"""The server: processes, ASGI application and middleware."""
