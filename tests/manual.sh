#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# manual.sh - checks that the manual page names every command and option of the
# tables and no others, and that the shell completes them.
#
#     sh tests/manual.sh SPCTUNE spctune.1.md
set -u
spctune=$1
page=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "$*"
    failed=1
}

# options_of COMMAND: prints the long options that its help lists.
options_of() {
    "$spctune" $1 --help | sed -n 's/^  \(-[A-Za-z], \|    \)--\([a-z0-9-]*\).*/--\2/p'
}

# has FILE WORD: true if the file contains the word as a whole.
has() {
    grep -qE -e "(^|[^a-z-])$2([^a-z0-9-]|\$)" "$1"
}

"$spctune" completion bash >"$work/bash"
"$spctune" completion zsh >"$work/zsh"
commands=$("$spctune" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p')
[ "$(echo "$commands" | wc -l)" -gt 10 ] || fail "help lists no commands"
for command in $commands; do
    has "$page" "\`$command" || fail "the page lacks $command"
    offered=$(command -v bash >/dev/null && bash -c '. "$1"
        COMP_LINE="spctune $2 --" COMP_POINT=${#COMP_LINE}
        _spctune; echo "${COMPREPLY[*]}"' - "$work/bash" "$command" |
        tr ' ' '\n' | sed 's/=$//')
    for option in $(options_of "$command"); do
        echo "$option" >>"$work/known"
        has "$page" "$option" || fail "the page lacks $command $option"
        has "$work/zsh" "$option" || fail "zsh lacks $command $option"
        [ -z "$offered" ] || echo "$offered" | grep -qx -e "$option" ||
            fail "bash does not offer $command $option"
    done
done
# Options of other programs in the examples.
others="--version --array --signal --wrap"
for option in $(grep -oE -e '--[a-z][a-z0-9-]+' "$page" | sort -u); do
    grep -qx -e "$option" "$work/known" ||
        case " $others " in
        *" $option "*) ;;
        *) fail "the page has $option, which no command knows" ;;
        esac
done
[ $failed = 0 ] && echo "ok: $(sort -u "$work/known" | wc -l) options"
exit $failed
