#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rooms.py - checks that includes point in one direction, from room to room.

    python3 tests/rooms.py SOURCES

Reads every quoted include of the product's C files. It fails if a room includes
a room above it or a room that it may not see, or if files include each other in
a circle. A header and the source file of the same name count as one file.
"""
import os
import re
import sys

# From the bottom to the top. A room may include those before it in this list.
ORDER = ("base", "templates", "operators", "compiler", "cache", "device",
         "context", "coords", "plan", "net", "lab", "tuner")
# These see public headers and the named rooms only.
APART = {"command": {"base"}, "import": {"base"}, "examples": set(),
         "integrations": set()}
PUBLIC = re.compile(r"spc(_\w+)?\.h|spc/\w+\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SKIPPED = {"tests", "build", "docs", "python", ".git", "include", "benchmarks"}
FOLDERS = {"runtime": 1, "tuner/command": 1}


def room_of(path):
    """Return the room of a file, by its path from the top."""
    parts = path.split("/")
    if parts[0] == "runtime" or parts[:2] == ["tuner", "command"]:
        return parts[1]
    return parts[0]


def find(top, name, near):
    """Return the path of an included header from the top, or None for a
    generated header."""
    for folder in (os.path.dirname(near), "", "runtime", "tuner", "include"):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(top, path)):
            return path
    return None


def sources(top):
    for folder, below, files in os.walk(top):
        here = os.path.relpath(folder, top)
        if here == ".":
            below[:] = [b for b in below if b not in SKIPPED]
        for name in files:
            if name.endswith((".c", ".h")) and here != ".":
                yield os.path.normpath(os.path.join(here, name))


def wrong(from_room, to_room):
    """Return why this include is refused, or None."""
    if from_room == to_room or to_room == "include":
        return None
    if from_room in APART:
        seen = APART[from_room]
        return None if to_room in seen else "sees only public headers and base"
    if from_room not in ORDER or to_room not in ORDER:
        return "no such room in tests/rooms.py"
    if ORDER.index(to_room) > ORDER.index(from_room):
        return "the room is above it"
    return None


def rings(graph):
    """Yield groups of files that reach each other (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def main(top):
    bad, includes, unit_graph = [], 0, {}
    for path in sources(top):
        with open(os.path.join(top, path), encoding="utf-8") as file:
            names = INCLUDE.findall(file.read())
        unit = os.path.splitext(path)[0]
        links = unit_graph.setdefault(unit, set())
        for name in names:
            other = find(top, name, path)
            if other is None:
                continue
            includes += 1
            why = wrong(room_of(path), room_of(other))
            if why:
                bad.append("%s includes \"%s\": %s" % (path, name, why))
            other_unit = os.path.splitext(other)[0]
            if other_unit != unit and other_unit + ".c" != other:
                links.add(other_unit)
                unit_graph.setdefault(other_unit, set())
    print("\n".join(bad), end="\n" if bad else "")
    circles = rings(unit_graph)
    for circle in circles:
        print("ring of %d: %s" % (len(circle), " ".join(circle)))
    print("%d includes, %d refused, %d rings of files" %
          (includes, len(bad), len(circles)))
    return 1 if bad or includes < 100 or circles else 0


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    sys.exit(main(sys.argv[1]))
