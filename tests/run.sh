#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - all tests, from nothing: installs what is missing, builds, runs.
#
#     sh tests/run.sh [--all] [PRESET...]      default: dev asan tsan
#
# For Debian 12 and Ubuntu 24.04; asks sudo for packages only if some are missing.
# Needs neither a GPU nor the CUDA Toolkit: tests that do skip themselves and say
# so. PyTorch for the Python suites (762 MB) is installed beside the build into
# $SPC_TORCH_VENV (default: ~/.cache/spctune-torch), once; SPC_TORCH_VENV=no leaves
# them out. dev runs all tests. asan and tsan run those of tests/areas.txt: some always,
# others if what they test has changed (tests/touched.sh); only what these need is
# built. Large matrices are sampled, always in the same way: the same commit gives the
# same verdict on any day. A suite that fails prints its seed, which SPC_SEED sets.
#
# --all: nothing is sampled, asan and tsan run all that they can, and all of it
# three times, with the seeds 1, 2 and 3. It takes hours.
set -u
cd "$(dirname "$0")/.." || exit 1
all=
if [ "${1:-}" = --all ]; then
    all=yes
    shift
fi
presets=${*:-dev asan tsan}

# Lists the package of every command, header and library that the build needs.
missing() {
    for pair in gcc:gcc g++:g++ cmake:cmake ninja:ninja-build \
        pkg-config:pkg-config protoc-c:protobuf-c-compiler \
        abidiff:abigail-tools; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
    done
    for pair in lua5.4/lua.h:liblua5.4-dev sqlite3.h:libsqlite3-dev \
        stdlib.h:libc6-dev check.h:check jansson.h:libjansson-dev \
        zip.h:libzip-dev protobuf-c/protobuf-c.h:libprotobuf-c-dev \
        zstd.h:libzstd-dev sodium.h:libsodium-dev; do
        [ -e "/usr/include/${pair%%:*}" ] || echo "${pair##*:}"
    done
}

install_missing() {
    packages=$(missing | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    if [ -n "$root" ] && ! command -v sudo >/dev/null; then
        echo "these packages are missing: ${packages% }; as root run:" \
            "apt-get install ${packages% }" >&2
        exit 1
    fi
    echo "== installing $packages"
    # shellcheck disable=SC2086 # one word a package
    $root apt-get update -qq &&
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends $packages
}

# ThreadSanitizer of GCC 12 and 13 fails with the address-space randomisation of
# recent kernels, so it runs without.
run_ctest() {
    preset=$1
    shift
    set -- ctest --preset "$preset" "$@" -j "$(nproc)"
    if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        set -- setarch "$(uname -m)" -R "$@"
    fi
    "$@"
}

# PyPI has no CPU-only build of PyTorch. If the CUDA Toolkit is installed, the
# CUDA build runs without the packages that repeat it.
torch_venv=${SPC_TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/spctune-torch}
torch_pid=

has_torch() {
    "$torch_venv/bin/python" -c 'import numpy, torch' >/dev/null 2>&1
}

# Downloads during the build. Five minutes are enough at 2.5 MB/s.
start_torch() {
    [ "$torch_venv" != no ] && ! has_torch || return 0
    (
        python3 -m venv "$torch_venv" &&
            timeout 300 "$torch_venv/bin/pip" install -q --no-deps \
                --disable-pip-version-check torch==2.11.0 numpy filelock \
                typing-extensions sympy mpmath networkx jinja2 MarkupSafe \
                fsspec setuptools nvidia-cusparselt-cu13 nvidia-nvshmem-cu13 \
                nvidia-cufile
    ) >build/torch.log 2>&1 &
    torch_pid=$!
}

# Tells CMake which Python has PyTorch, once the download has ended.
use_torch() {
    [ "$torch_venv" != no ] || return 0
    [ -z "$torch_pid" ] || wait "$torch_pid" || true
    torch_pid=
    if has_torch; then
        cmake --preset "$1" -DSPC_TEST_PYTHON="$torch_venv/bin/python" \
            >>"build/$1.log" 2>&1
    else
        echo "no PyTorch: its suites skip ($(tail -n 1 build/torch.log 2>&1))"
    fi
}

# Runs the tests once for each seed.
run_seeds() {
    if [ -z "$all" ]; then
        run_ctest "$@"
        return
    fi
    outcome=0
    for seed in 1 2 3; do
        echo "== $1: seed $seed"
        (
            SPC_TEST_ALL=1 SPC_SEED=$seed
            export SPC_TEST_ALL SPC_SEED
            run_ctest "$@"
        ) || outcome=1
    done
    return $outcome
}

# Prints a regular expression for the tests that the sanitizers run.
touched() {
    [ -n "$all" ] && echo . && return
    echo "^($(sh tests/touched.sh | paste -sd'|'))\$"
}

# Prints the targets for the tests that ctest selects with these arguments.
programs() {
    preset=$1
    shift
    ctest --preset "$preset" -N "$@" | awk '
        NR == FNR { program[$1] = $2; next }
        $1 != "Test" || $2 !~ /^#/ { next }
        { print $3 in program ? program[$3] : "other_programs" }' \
        "build/$preset/tests/programs.txt" - | sort -u
}

run_preset() {
    preset=$1
    shift
    case $preset in
    asan) set -- -LE 'slow|gpu' -R "$(touched)" ;;
    tsan) set -- -L threads -R "$(touched)" ;;
    esac
    echo "== $preset: building"
    cmake --preset "$preset" >"build/$preset.log" 2>&1 || {
        tail -n 30 "build/$preset.log"
        return 1
    }
    targets=all
    [ $# = 0 ] || targets=$(programs "$preset" "$@")
    # shellcheck disable=SC2086 # a word a target
    cmake --build --preset "$preset" --target $targets \
        >>"build/$preset.log" 2>&1 || {
        tail -n 30 "build/$preset.log"
        return 1
    }
    [ "$preset" != dev ] || use_torch dev || return 1
    echo "== $preset: testing"
    run_seeds "$preset" "$@"
}

# Tests request too much memory and expect malloc to return NULL.
ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
TSAN_OPTIONS=allocator_may_return_null=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
export ASAN_OPTIONS TSAN_OPTIONS

start=$(date +%s)
if ! install_missing; then
    echo "some packages could not be installed; nothing was tested" >&2
    exit 1
fi
# Does not use /tmp, where some machines forbid running programs, because tests
# write and run programs.
mkdir -p build/tmp
TMPDIR=$PWD/build/tmp
export TMPDIR
# The compiled kernels that tests share; see tests/once/cc.
SPC_TEST_CODE=$PWD/build/code
rm -rf "$SPC_TEST_CODE"
mkdir -p "$SPC_TEST_CODE"
export SPC_TEST_CODE
case " $presets " in
*" dev "*) start_torch ;;
esac
summary=
failed=0
for preset in $presets; do
    since=$(date +%s)
    if run_preset "$preset"; then
        result=passed
    else
        result=FAILED
        failed=1
    fi
    summary="$summary
  $preset: $result in $(($(date +%s) - since)) s"
done
echo
echo "summary, $(($(date +%s) - start)) s in all:$summary"
exit $failed
