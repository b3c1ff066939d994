"""HTTP conventions shared by all routes: bodies, ETags, pages, authentication."""
