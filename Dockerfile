# One image for the API, the scheduler and the workers, which are commands of `sibling`.
#
# It runs as any user and with a read-only root, if /data and /tmp are writable:
#
#   docker run --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges \
#     --user 12345:0 --volume sibling:/data --publish 127.0.0.1:8000:8000 sibling
ARG PYTHON_IMAGE=python:3.11-slim

# the pages at /help
FROM ${PYTHON_IMAGE} AS help
WORKDIR /build
COPY requirements-docs.lock .
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements-docs.lock
COPY docs docs
RUN python -m sphinx -E -W --keep-going -q docs /help && rm -r /help/.doctrees

FROM ${PYTHON_IMAGE} AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends binutils >/dev/null \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
RUN python3 -m venv /opt/sibling
ENV PATH=/opt/sibling/bin:$PATH
COPY requirements.lock .
RUN pip install --no-cache-dir --no-compile --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY algorithms algorithms
COPY sibling sibling
COPY service service
COPY --from=help /help service/help
COPY migrations migrations
COPY docker/shrink.sh docker/
RUN pip install --no-cache-dir --no-compile --no-deps --no-build-isolation . \
    # remove build dependencies; nothing is installed after this
    && pip uninstall --yes --quiet hatchling editables pathspec pluggy tomlkit trove-classifiers \
    && pip uninstall --yes --quiet setuptools pip \
    && sh docker/shrink.sh /opt/sibling/lib/python3*/site-packages
# Compile the numerical kernels, so that no job waits for it. Bytecode is compiled only for modules that
# are imported, which saves 30 MB. The demo is a final test.
ENV NUMBA_CACHE_DIR=/opt/kernels
RUN cd / && python -m service.operations.warm \
    && python -m compileall -q /opt/sibling/lib/python3*/site-packages/service \
        /opt/sibling/lib/python3*/site-packages/algorithms \
        /opt/sibling/lib/python3*/site-packages/sibling \
        /opt/sibling/lib/python3*/site-packages/migrations \
    && python -c "import service.jobs.worker.tls, distributed.cli.dask_scheduler, distributed.cli.dask_worker" \
    && python -c "import sqlalchemy as sa; sa.create_engine('postgresql+psycopg://')" \
    && { sibling demo > /tmp/demo & } \
    && until grep Pages /tmp/demo; do kill -0 $! && sleep 1 || exit 1; done \
    && kill $! && wait $! \
    && chmod -R a+rX /opt/kernels

FROM ${PYTHON_IMAGE}
# OpenMP for LightGBM, which trains boosted trees
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends libgomp1 >/dev/null \
    && rm -rf /var/lib/apt/lists/*
# any user may write, so that a new volume can be used by any user
RUN useradd --uid 10001 --gid 0 --no-create-home sibling \
    && install -d -m 1777 /data /tls
COPY --from=build /opt/sibling /opt/sibling
COPY --from=build /opt/kernels /opt/kernels
COPY --chmod=755 docker/entrypoint.sh /usr/local/bin/sibling-entrypoint
ENV PATH=/opt/sibling/bin:$PATH \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/tmp/sibling-kernels \
    SIBLING_DATA_DIR=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["sibling-entrypoint"]
CMD ["serve"]
