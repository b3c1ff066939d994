"""What can be trained: the registry of algorithms, told over HTTP."""
