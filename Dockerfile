# One image for the API, the scheduler and the workers, which are commands of `sibling`.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends binutils >/dev/null \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
RUN python3 -m venv /opt/sibling
ENV PATH=/opt/sibling/bin:$PATH
COPY requirements.lock .
RUN pip install --no-cache-dir --no-compile --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY algorithms algorithms
COPY service service
COPY migrations migrations
RUN pip install --no-cache-dir --no-compile --no-deps --no-build-isolation . \
    # remove build dependencies; nothing is installed after this
    && pip uninstall --yes --quiet hatchling editables pathspec pluggy tomlkit trove-classifiers \
    && pip uninstall --yes --quiet setuptools pip \
    && find /opt/sibling -name tests -type d -path '*/site-packages/*' -prune -exec rm -rf {} + \
    # strip this library only: those of numpy and scipy do not load after stripping
    && find /opt/sibling -name libllvmlite.so -exec strip --strip-unneeded {} +
# Compile the numerical kernels, so that no job waits for it. Numba ignores its cache if the time of a
# source file changes, and image layers truncate times to seconds, so `touch` sets a whole second.
# Bytecode is compiled only for modules that are imported, which saves 30 MB. The demo is a final test.
ENV NUMBA_CACHE_DIR=/opt/kernels
RUN cd / && find /opt/sibling -name '*.py' -exec touch -d 2000-01-01 {} + \
    && python -m service.warm \
    && python -m compileall -q /opt/sibling/lib/python3*/site-packages/service \
        /opt/sibling/lib/python3*/site-packages/algorithms \
        /opt/sibling/lib/python3*/site-packages/migrations \
    && python -c "import service.jobs.worker.tls, distributed.cli.dask_scheduler, distributed.cli.dask_worker" \
    && python -c "import sqlalchemy as sa; sa.create_engine('postgresql+psycopg://')" \
    && { sibling demo > /tmp/demo & } \
    && until grep Pages /tmp/demo; do kill -0 $! && sleep 1 || exit 1; done \
    && kill $! && wait $!

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --create-home sibling \
    && install -d -o sibling /data /tls
COPY --from=build /opt/sibling /opt/sibling
# numba reads its cache only from a writable folder
COPY --from=build --chown=sibling /opt/kernels /opt/kernels
ENV PATH=/opt/sibling/bin:$PATH \
    NUMBA_CACHE_DIR=/opt/kernels \
    SIBLING_DATA_DIR=/data \
    PYTHONUNBUFFERED=1
USER sibling
WORKDIR /data
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["sibling"]
CMD ["serve"]
