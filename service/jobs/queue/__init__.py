"""The queue of jobs: states, SQL, dispatch and detection of lost attempts."""
