"""HTTP/1.1 below the application: how bytes become requests, and replies bytes."""
