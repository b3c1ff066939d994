# One image; API, scheduler and workers are commands of it.
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
    # what only the build needed; nothing is installed from here on
    && pip uninstall --yes --quiet hatchling editables pathspec pluggy tomlkit trove-classifiers \
    && pip uninstall --yes --quiet setuptools pip \
    && find /opt/sibling -name tests -type d -path '*/site-packages/*' -prune -exec rm -rf {} + \
    # not so the other libraries: numpy's and scipy's do not load any more once they are stripped
    && find /opt/sibling -name libllvmlite.so -exec strip --strip-unneeded {} +
# Kernels are compiled here, once, so that no job ever waits for it. A layer keeps times in whole
# seconds, and what was compiled from a file of another time is not taken: hence the touch.
# Byte code is made of what is ever imported; the rest would be 30 MB. The demo shows that all works.
ENV NUMBA_CACHE_DIR=/opt/kernels
RUN cd / && find /opt/sibling -name '*.py' -exec touch -d 2000-01-01 {} + \
    && python -m algorithms.numerics.warm \
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
# what was compiled is only looked for in a folder that can be written to
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
