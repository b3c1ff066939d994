"""Workers: the Dask pool, supervision of attempts, and the child process that trains."""
