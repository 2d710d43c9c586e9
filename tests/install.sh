#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh - installs a build and uses it like another project.
#
#     sh tests/install.sh BUILD_FOLDER
#
# Uses the installed libraries by pkg-config and by find_package, shared and
# static, in C and C++. Also checks the manual page, the completions, the use as
# a subproject, and the unpacked Debian packages. If the build has their prefix
# (preset deb), lintian checks the packages.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cmake --install "$build" --prefix "$work/first" >"$work/log" || fail install
mv "$work/first" "$work/tree" # the installed tree may be moved
lib=$(dirname "$(find "$work/tree" -name libspc.a)")
export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"
says="spc 1.0.0-rc.1, 27 offsets"

check() { # NAME PROGRAM
    [ "$("$2")" = "$says" ] || fail "$1"
    echo "ok: $1"
}

check_lab() { # NAME PROGRAM
    says="848 voxels" check "$@"
}

# Every link of the documents of a tree leads to a file.
check_links() { # NAME ROOT
    find "$2" -name '*.md' >"$work/pages"
    while read -r page; do
        grep -oE '(\]\(|src=")[^)#": ]+[)#"]' "$page" |
            sed -E 's/^(\]\(|src=")//; s/.$//' |
            while read -r link; do
                [ -e "$(dirname "$page")/$link" ] ||
                    echo "${page#"$2"}: $link is not there"
            done
    done <"$work/pages" >"$work/lost"
    [ -s "$work/pages" ] || fail "$1: no documents"
    [ ! -s "$work/lost" ] || fail "$1: $(cat "$work/lost")"
    echo "ok: links, $1"
}
check_links install "$work/tree"

# ---- pkg-config
cp "$here/installed/consumer.c" "$work/consumer.cpp"
cc $(pkg-config --cflags spc) "$here/installed/consumer.c" \
    $(pkg-config --libs spc) -o "$work/c_shared"
check "C, pkg-config, shared" "$work/c_shared"
readelf -d "$work/c_shared" | grep -q 'libspc.so.1' || fail "it is not shared"
cc $(pkg-config --cflags spclab) "$here/installed/lab.c" \
    $(pkg-config --libs spclab) -o "$work/lab_shared"
check_lab "the lab, pkg-config, shared" "$work/lab_shared"
c++ $(pkg-config --cflags spc) "$work/consumer.cpp" $(pkg-config --libs spc) \
    -o "$work/cxx_shared"
check "C++, pkg-config, shared" "$work/cxx_shared"
mkdir "$work/hidden"
mv "$lib"/libspc.so* "$lib"/libspclab.so* "$work/hidden"
cc $(pkg-config --cflags spc) "$here/installed/consumer.c" \
    $(pkg-config --static --libs spc) -o "$work/c_static"
check "C, pkg-config, static" "$work/c_static"
cc $(pkg-config --cflags spclab) "$here/installed/lab.c" \
    $(pkg-config --static --libs spclab) -o "$work/lab_static"
check_lab "the lab, pkg-config, static" "$work/lab_static"
mv "$work/hidden"/* "$lib"

# ---- find_package
cmake -S "$here/installed" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/tree" \
    >>"$work/log" 2>&1 || fail "find_package: $(cat "$work/log")"
cmake --build "$work/consumer" >>"$work/log" 2>&1 ||
    fail "build: $(cat "$work/log")"
for kind in c_spc c_spc_static cxx_spc cxx_spc_static hpp_spc hpp_spc_static; do
    check "find_package, $kind" "$work/consumer/$kind"
done
for kind in lab lab_static; do
    check_lab "find_package, $kind" "$work/consumer/c_$kind"
done

# ---- shipped files are found in the moved tree
for text in "$here"/../tuned/*-*.txt; do
    [ -e "$text" ] || continue
    name=$(basename "$text" .txt)
    [ -s "$work/tree/share/spctune/$name.db" ] || fail "$name.db is not there"
    "$work/tree/bin/spctune" --database "$work/tree/share/spctune/$name.db" \
        db verify >>"$work/log" 2>&1 || fail "$name.db: $(tail -1 "$work/log")"
    echo "ok: $name.db"
done

# ---- manual page and completions
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
zsh_file=$(find "$work/tree/share/zsh" -name _spctune)
if command -v zsh >/dev/null; then
    zsh -n "$zsh_file" || fail "completion for zsh"
fi
head -1 "$zsh_file" | grep -q '^#compdef spctune' || fail "completion for zsh"
echo "ok: completions"

# ---- files without paths of this machine
if grep -nE '(^|["; =])/(usr|lib|opt|home|tmp)' "$lib"/cmake/spc/spcConfig.cmake \
    "$lib"/pkgconfig/*.pc; then
    fail "paths of this machine"
fi
echo "ok: no paths of this machine"

# ---- as a subproject: no tests, no examples, spc::spc
cmake -S "$here/installed/outer" -B "$work/outer" \
    -DSPC_SOURCES="$here/.." >"$work/log" 2>&1 ||
    fail "subproject: $(tail -5 "$work/log")"
! cmake --build "$work/outer" --target help | grep -E 'test_|jit_layer|tuned' ||
    fail "subproject: targets that are its own"
cmake --build "$work/outer" -j2 --target outer >"$work/log" 2>&1 ||
    fail "subproject: $(tail -20 "$work/log")"
check "subproject" "$work/outer/outer"

# ---- the Debian packages
if command -v dpkg-deb >/dev/null; then
    # Uses an environment in which libspc is not installed.
    env -u LD_LIBRARY_PATH cpack --config "$build/CPackConfig.cmake" \
        -B "$work/deb" >>"$work/log" 2>&1 ||
        fail "cpack: $(cat "$work/log")"
    for name in libspc1 libspc-import1 libspclab1 libspc-dev spctune \
        spctune-data; do
        deb=$(echo "$work/deb/${name}"_*.deb)
        dpkg-deb -x "$deb" "$work/root" || fail "no package $name"
        [ -s "$work/root/usr/share/doc/$name/copyright" ] ||
            fail "$name: no copyright"
        dpkg-deb -f "$deb" Multi-Arch | grep -qE 'same|foreign' ||
            fail "$name: no Multi-Arch"
        echo "ok: $(basename "$deb"), $(stat -c %s "$deb") bytes," \
            "needs $(dpkg-deb -f "$deb" Depends)"
    done
    dpkg-deb -f "$work"/deb/libspc1_*.deb Depends | grep -q libsqlite3 ||
        fail "its Depends"
    for name in libspc-import1 libspclab1; do
        dpkg-deb -f "$work/deb/$name"_*.deb Depends |
            grep -q 'libspc1 (= ' || fail "the Depends of $name"
        dpkg-deb -f "$work"/deb/libspc-dev_*.deb Depends |
            grep -q "$name (= " || fail "the Depends of libspc-dev on $name"
    done
    # An image that only runs networks has no readers of other files.
    ! dpkg-deb -c "$work"/deb/libspc1_*.deb | grep -E 'libspclab|libspc_import' ||
        fail "libspc1 has another library"
    ! dpkg-deb -f "$work"/deb/libspc1_*.deb Depends |
        grep -E 'jansson|libzip|protobuf' || fail "libspc1 needs readers"
    check_links packages "$work/root"
    dpkg-deb --ctrl-tarfile "$work"/deb/libspc1_*.deb | tar t >"$work/control"
    [ -s "$work/root/usr/include/spc.hpp" ] || fail "libspc-dev has no spc.hpp"
    dpkg-deb -f "$work"/deb/libspc-dev_*.deb Depends | grep -q libsqlite3-dev ||
        fail "the Depends of libspc-dev"
    grep -q shlibs "$work/control" || fail "no shlibs"
    grep -q triggers "$work/control" || fail "no triggers"
    so=$(find "$work/root" -name 'libspc.so.1')
    LD_LIBRARY_PATH=$(dirname "$so") "$work/root/usr/bin/spctune" --version |
        grep -q '^spctune 1.0.0-rc.1' || fail "the packaged command"
    # Only with Debian's prefix are libraries in the folders that Debian wants.
    if command -v lintian >/dev/null &&
        grep -q '^CMAKE_INSTALL_PREFIX:PATH=/usr$' "$build/CMakeCache.txt"; then
        lintian --fail-on error --allow-root "$work"/deb/*.deb ||
            fail "lintian"
        echo "ok: lintian"
    fi
fi
