#!/bin/sh
# install.sh - installs a build and uses it as others do.
#
#     sh tests/install.sh BUILD_FOLDER
#
# By pkg-config and by find_package, shared and static, in C and C++; the manual
# page, the completions; the Debian package, unpacked.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cmake --install "$build" --prefix "$work/first" >"$work/log" || fail install
mv "$work/first" "$work/tree" # it may be moved
lib=$(dirname "$(find "$work/tree" -name libspc.a)")
export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"
says="spc 0.1.0, 27 offsets"

check() { # NAME PROGRAM
    [ "$("$2")" = "$says" ] || fail "$1"
    echo "ok: $1"
}

# ---- pkg-config
cp "$here/installed/consumer.c" "$work/consumer.cpp"
cc $(pkg-config --cflags spc) "$here/installed/consumer.c" \
    $(pkg-config --libs spc) -o "$work/c_shared"
check "C, pkg-config, shared" "$work/c_shared"
readelf -d "$work/c_shared" | grep -q 'libspc.so.0' || fail "it is not shared"
c++ $(pkg-config --cflags spc) "$work/consumer.cpp" $(pkg-config --libs spc) \
    -o "$work/cxx_shared"
check "C++, pkg-config, shared" "$work/cxx_shared"
mkdir "$work/hidden"
mv "$lib"/libspc.so* "$work/hidden"
cc $(pkg-config --cflags spc) "$here/installed/consumer.c" \
    $(pkg-config --static --libs spc) -o "$work/c_static"
check "C, pkg-config, static" "$work/c_static"
mv "$work/hidden"/* "$lib"

# ---- find_package
cmake -S "$here/installed" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/tree" \
    >>"$work/log" 2>&1 || fail "find_package: $(cat "$work/log")"
cmake --build "$work/consumer" >>"$work/log" 2>&1 ||
    fail "build: $(cat "$work/log")"
for kind in c_spc c_spc_static cxx_spc cxx_spc_static; do
    check "find_package, $kind" "$work/consumer/$kind"
done

# ---- what ships, found from where the tree lies now
for text in "$here"/../tuned/*-*.txt; do
    [ -e "$text" ] || continue
    name=$(basename "$text" .txt)
    [ -s "$work/tree/share/spctune/$name.db" ] || fail "$name.db is not there"
    "$work/tree/bin/spctune" --database "$work/tree/share/spctune/$name.db" \
        db verify >>"$work/log" 2>&1 || fail "$name.db: $(tail -1 "$work/log")"
    echo "ok: $name.db"
done

# ---- for those who type
page="$work/tree/share/man/man1/spctune.1"
if command -v groff >/dev/null; then
    groff -man -ww -z -Tutf8 "$page" >"$work/groff" 2>&1
    [ ! -s "$work/groff" ] || fail "manual page: $(cat "$work/groff")"
fi
for word in SYNOPSIS LAYERS COMMANDS EXAMPLES; do
    grep -q "^.SH $word" "$page" || fail "manual page: no $word"
done
echo "ok: manual page"
bash -c '
    . "$1"
    ask() { COMP_LINE=$1 COMP_POINT=${#1}; _spctune; }
    ask "spctune db "
    [[ " ${COMPREPLY[*]} " == *" ls "*" pack "* ]] || exit 1
    ask "spctune tu"
    [[ "${COMPREPLY[*]}" == tune ]] || exit 1
    ask "spctune --json tune --eff"
    [[ "${COMPREPLY[*]}" == --effort ]]
' bash "$work/tree/share/bash-completion/completions/spctune" ||
    fail "completion for bash"
zsh_file="$work/tree/share/zsh/site-functions/_spctune"
if command -v zsh >/dev/null; then
    zsh -n "$zsh_file" || fail "completion for zsh"
fi
head -1 "$zsh_file" | grep -q '^#compdef spctune' || fail "completion for zsh"
echo "ok: completions"

# ---- the package
if command -v dpkg-deb >/dev/null; then
    cpack --config "$build/CPackConfig.cmake" -B "$work/deb" >>"$work/log" 2>&1 ||
        fail "cpack: $(cat "$work/log")"
    deb=$(find "$work/deb" -maxdepth 1 -name '*.deb')
    dpkg-deb -x "$deb" "$work/root"
    dpkg-deb -f "$deb" Depends | grep -q libsqlite3 || fail "its Depends"
    so=$(find "$work/root" -name 'libspc.so.0')
    LD_LIBRARY_PATH=$(dirname "$so") "$work/root/usr/bin/spctune" --version |
        grep -q '^spctune 0.1.0' || fail "the packaged command"
    echo "ok: $(basename "$deb"), $(stat -c %s "$deb") bytes," \
        "needs $(dpkg-deb -f "$deb" Depends)"
fi
