"""Queued work: the row is the truth, Dask distributes, a child process is the unit of kill."""
