#!/bin/sh
# Removes from installed packages what no program uses at run time: shrink.sh SITE_PACKAGES
set -eu
cd "$1"
find . -name tests -type d -prune -exec rm -rf {} +
# sources and headers for compilers, and stubs for type checkers
find . -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' \
    -o -name '*.hpp' -o -name '*.c' -o -name '*.cc' -o -name '*.cpp' -o -name '*.a' \) -delete
# Arrow's clients of Flight and S3, which are libraries of their own; Sibling reads and writes local files
rm -f pyarrow/_flight.* pyarrow/libarrow_flight.* pyarrow/libarrow_python_flight.*
rm -f pyarrow/_s3fs.* pyarrow/libarrow_s3.*
# wheels have no links: three copies of each library that has a version in its name
for library in pyarrow/libarrow_python*.so; do
    for copy in "$library".*; do
        if cmp -s "$library" "$copy"; then ln -sf "$(basename "$library")" "$copy"; fi
    done
done
# symbols for debuggers; libraries of numpy and scipy do not load after stripping
find llvmlite uvloop httptools sqlalchemy msgpack yaml cryptography pyarrow -type f -name '*.so*' \
    -exec strip --strip-unneeded {} +
