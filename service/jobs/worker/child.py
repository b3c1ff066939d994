"""The child process, which trains. It imports the algorithms, but no web framework or database."""

from service.processes.requests import connect, serve


def main() -> None:
    """Run the requests of the supervisor."""
    wire = connect()
    from algorithms.registry import preload
    from service.jobs.worker.training import run_request

    preload()
    serve(wire, run_request)


if __name__ == "__main__":
    main()
