#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# site.sh - builds the site of the documents into build/site.
#
#     sh tools/site.sh
#
# Needs Python 3. Uses `mkdocs` if it is in PATH; otherwise installs MkDocs Material
# into a virtual environment, $SPC_SITE_VENV or ~/.cache/spctune-site.
set -eu
cd "$(dirname "$0")/.."
pages=build/site-pages
venv=${SPC_SITE_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/spctune-site}

mkdocs=$(command -v mkdocs || echo "$venv/bin/mkdocs")
if [ ! -x "$mkdocs" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet install 'mkdocs-material==9.*'
fi

# The README is the first page. Links that leave docs/ go to copies of the files.
rm -rf "$pages"
mkdir -p "$pages/api"
cp -R docs/. "$pages"
sed -e 's,(docs/,(,g' -e 's,(templates/README.md),(templates.md),g' \
    -e 's,(include/spc.h),(api/spc.md),g' -e 's,(CONTRIBUTING.md),(contributing.md),g' \
    -e 's,(LICENSE),(LICENSE.txt),g' README.md >"$pages/index.md"
cp LICENSE "$pages/LICENSE.txt"
sed -e 's,(LICENSE),(LICENSE.txt),g' CONTRIBUTING.md >"$pages/contributing.md"
cp templates/README.md "$pages/templates.md"
# A fence takes a language and a title; ours name a file, or the block that installs.
sed -i -e 's,(\.\./templates/README.md),(templates.md),g' \
    -e 's/^```sh install$/```sh/' \
    -e 's/^```\([a-z]*\) \([a-z]*[.][a-z]*\)$/```\1 title="\2"/' "$pages"/*.md
# A manual page underlines its headings and writes options as terms.
sed -i -e '1,2d' "$pages/spctune.1.md"
{ printf '# spctune(1)\n'; cat "$pages/spctune.1.md"; } >"$pages/page.md"
mv "$pages/page.md" "$pages/spctune.1.md"
python3 tools/apidoc.py include -o "$pages/api"

NO_MKDOCS_2_WARNING=1 "$mkdocs" build --quiet --config-file mkdocs.yml
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages"
