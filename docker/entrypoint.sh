#!/bin/sh
# Entrypoint of the image: runs `sibling` with the arguments, or a shell if the first one is `sh`.
#
# Numba uses a cache of compiled kernels only if it can write to it, and the image may be read-only.
# So the kernels compiled at build are copied to /tmp first, 12 MB. On another kind of processor than
# that of the build machine, numba compiles them again, once per container.
set -eu
if ! [ -d "$NUMBA_CACHE_DIR" ] && ! cp -r /opt/kernels "$NUMBA_CACHE_DIR"; then
    echo "error: $NUMBA_CACHE_DIR cannot be written; mount a tmpfs on /tmp" >&2
    exit 1
fi
if [ "${1:-}" = sh ]; then
    exec "$@"
fi
exec sibling "$@"
