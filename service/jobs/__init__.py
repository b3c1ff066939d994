"""Jobs: HTTP routes, schemas, validation and submission.

``studies`` plans searches, comparisons and evaluations as child jobs, ``queue`` stores and
dispatches jobs, and ``worker`` runs them. The database row is the source of truth, Dask
distributes attempts, and a child process does the work, so that it can be killed.
"""
