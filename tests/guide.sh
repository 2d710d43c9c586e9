#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# guide.sh - runs the commands of the tutorial and of the pages on deployment, in
# their order and as they stand.
#
#     sh tests/guide.sh SOURCES BUILD_FOLDER
#
# The blocks ```sh of a page are one script; a block with a file's name becomes
# that file. Installing the build folder stands for the block that installs.
set -eu
SOURCES=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCES HOME="$work/home"
unset SPC_DATABASE XDG_CACHE_HOME
mkdir "$HOME"
cmake --install "$build" --prefix "$HOME/.local" >"$work/log"

# guide PAGE BLOCKS: runs the blocks of a page and checks that there are at
# least BLOCKS.
guide() {
    mkdir "$work/$1"
    awk -v folder="$work/$1" -v least="$2" '
        /^```/ && into != "" { close(into); into = ""; next }
        /^```sh install$/ { installs = 1; into = "/dev/null"; next }
        /^```sh$/ { into = folder "/script"; blocks++
                    print "echo \"== block " blocks "\"" >>into; next }
        /^```[a-z]+ [A-Za-z]+[.][a-z]+$/ { into = folder "/" $2; next }
        into != "" { print >>into }
        END { exit blocks < least || !installs }
    ' "$SOURCES/docs/$1.md" || { echo "FAILED: $1 has other blocks"; exit 1; }
    cd "$work/$1"
    # With pipefail a pipe fails if its first command fails.
    bash -euo pipefail ./script >"$work/out" 2>&1 ||
        { cat "$work/out"; echo "FAILED: $1"; exit 1; }
    echo "$1:"
    grep -E '^== |compiled|first result|^frame ' "$work/out"
}

guide tutorial 7
guide deploy 6
guide deploy-cpp 3
