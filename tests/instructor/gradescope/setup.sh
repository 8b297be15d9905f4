#!/bin/sh
# Run once by Gradescope, as root, when it builds the image: installs what the grader needs and
# compiles all that submissions share.
set -eu
base=${AUTOGRADER_BASE:-/autograder}
chapter=@CHAPTER@

if [ -z "${AUTOGRADER_NO_INSTALL:-}" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y --no-install-recommends gcc make libc6-dev binutils pkg-config \
        libjansson-dev python3
    # Kernel labs are traced by gcc 12 or newer; the image's own gcc may be older.
    if [ "$(gcc -dumpversion | cut -d. -f1)" -lt 12 ]; then
        apt-get install -y --no-install-recommends gcc-12
    fi
fi
cd "$base/source/course"
chmod 755 tests/instructor/gradebook
make NVCC= build/grade
tests/instructor/gradebook prepare --chapter "$chapter" --out "$base/grading"
