"""Workers that run the jobs of many servers: a server starts its own in three times its time.

It prints the address of their scheduler.
"""

import contextlib
import signal
import sys


def main() -> None:
    import dask
    from distributed import LocalCluster

    from service.jobs.worker.cluster import add_rpcs, dask_config
    from service.settings import Settings

    settings = Settings()
    dask.config.set(dask_config(settings))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,  # as one that is spawned would import everything anew
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            local_directory=str(settings.data_dir / "dask"),
        ) as cluster,
    ):
        add_rpcs(cluster.scheduler)
        sys.stdout.write(f"{cluster.scheduler_address}\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
