#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc_lines.py - refuses lines of over 120 characters in the documents.

    python3 tests/doc_lines.py SOURCES

Rows of tables may be longer, as Markdown cannot break them.
"""
import os
import sys

MOST = 120
FOLDERS = ("", "docs", "docs/dev", "templates", "python")


def long_lines(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            length = len(line.rstrip("\n"))
            if length > MOST and not line.lstrip().startswith("|"):
                yield f"{path}:{number}: {length} characters, expected at most {MOST}"


def main():
    found, seen = [], 0
    for folder in (os.path.join(sys.argv[1], part) for part in FOLDERS):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".md"):
                seen += 1
                found += long_lines(os.path.join(folder, name))
    print("\n".join(found + [f"{seen} documents, {len(found)} long lines"]))
    sys.exit(bool(found) or seen == 0)


if __name__ == "__main__":
    main()
