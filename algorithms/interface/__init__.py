"""Interface of all algorithms: parameters, tasks, models, the trace of a fit, errors, files."""
