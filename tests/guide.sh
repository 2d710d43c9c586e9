#!/bin/sh
# guide.sh - runs the commands of docs/GUIDE.md, in their order and as they stand.
#
#     sh tests/guide.sh SOURCES BUILD_FOLDER
#
# Blocks ```sh are one script; blocks with a file's name become that file. The block
# that installs is done by installing the build folder instead.
set -eu
SOURCES=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCES HOME="$work/home"
unset SPC_DATABASE XDG_CACHE_HOME
mkdir "$HOME" "$work/here"

awk -v folder="$work/here" '
    /^```/ && into != "" { close(into); into = ""; next }
    /^```sh install$/ { installs = 1; into = "/dev/null"; next }
    /^```sh$/ { into = folder "/script"; blocks++
                print "echo \"== block " blocks "\"" >>into; next }
    /^```[a-z]+ [a-z]+[.][a-z]+$/ { into = folder "/" $2; next }
    into != "" { print >>into }
    END { exit blocks < 6 || !installs }
' "$SOURCES/docs/GUIDE.md" || { echo "FAILED: the guide has other blocks"; exit 1; }

cmake --install "$build" --prefix "$HOME/.local" >"$work/log"
cd "$work/here"
# A pipe must not hide that its first command failed.
bash -euo pipefail ./script >"$work/out" 2>&1 ||
    { cat "$work/out"; echo "FAILED: the guide"; exit 1; }
grep -E '^== |compiled|first result' "$work/out"
