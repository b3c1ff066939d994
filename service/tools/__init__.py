"""Tools that write the generated files: pages of the documentation, stubs."""
