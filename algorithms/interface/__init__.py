"""What every algorithm speaks: parameters, tasks, models, the trace of a fit, errors, files."""
