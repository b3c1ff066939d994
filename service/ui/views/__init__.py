"""View models of the templates, built from responses of the API."""
