#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh - the main steps at once: builds, shows what is known about a layer,
# tunes it, shows the result, and runs it from the database.
#
#     sh examples/quickstart.sh [SCENE] [LAYER]
#
# Installs what is missing on Debian 12 and Ubuntu 24.04 (asks sudo for it only
# then), builds into build/release, and tunes on the best device present.
set -eu
scene=${1:-gen:lidar@0.1}
case $scene in
gen:* | /*) ;;
*) scene=$PWD/$scene ;; # a file of the folder that we leave now
esac
cd "$(dirname "$0")/.."

layer=${2:-subm,cin=64,cout=64,k=3,dtype=f16}
database=build/quickstart.db

say() {
    printf '\n== %s\n' "$*"
}

# The package of every command, header and library that the build asks for.
missing() {
    command -v gcc >/dev/null || echo gcc
    command -v cmake >/dev/null || echo cmake
    command -v ninja >/dev/null || echo ninja-build
    command -v pkg-config >/dev/null || echo pkg-config
    for pair in lua5.4/lua.h:liblua5.4-dev sqlite3.h:libsqlite3-dev \
        stdlib.h:libc6-dev; do
        [ -e "/usr/include/${pair%%:*}" ] || echo "${pair##*:}"
    done
}

packages=$(missing | tr '\n' ' ')
if [ -n "$packages" ]; then
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    if [ -n "$root" ] && ! command -v sudo >/dev/null; then
        echo "these packages are missing: ${packages% }; as root run:" \
            "apt-get install ${packages% }" >&2
        exit 1
    fi
    say "installing $packages"
    $root apt-get update -qq
    # shellcheck disable=SC2086 # one word a package
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends $packages
fi

say "building"
cmake --preset release
cmake --build --preset release
spctune=build/release/tuner/spctune
example=build/release/examples/jit_layer

say "devices; the best one's ceilings, for the floor below"
"$spctune" --database "$database" devices --measure

say "what is known of $layer without tuning: on an NVIDIA H200 what ships"
"$spctune" --database "$database" explain "$layer" --scene "$scene"
"$spctune" --database "$database" bench "$layer" --scene "$scene"

say "tuning $layer on $scene"
"$spctune" --database "$database" tune "$layer" --scene "$scene" \
    --effort quick

say "what it came to: time, floor, and their ratio"
"$spctune" --database "$database" bench "$layer" --scene "$scene"

say "examples/jit_layer runs the winner from the database"
"$example" --database "$database" -l "$layer" -s "$scene" --cached-only
