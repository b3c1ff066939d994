# One image; API, scheduler and workers are commands of it.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
RUN python3 -m venv /opt/sibling
ENV PATH=/opt/sibling/bin:$PATH
COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY algorithms algorithms
COPY service service
COPY migrations migrations
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
    # kernels are compiled here, once, so that no job ever waits for it
    && cd / && python -m algorithms.numerics.warm \
    # what only the build needed
    && pip uninstall --yes --quiet hatchling editables \
    && find /opt/sibling -name tests -type d -path '*/site-packages/*' -prune -exec rm -rf {} +

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --create-home sibling \
    && install -d -o sibling /data /tls
COPY --from=build /opt/sibling /opt/sibling
ENV PATH=/opt/sibling/bin:$PATH \
    SIBLING_DATA_DIR=/data \
    PYTHONUNBUFFERED=1
USER sibling
WORKDIR /data
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["sibling"]
CMD ["serve"]
