#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""apidoc.py - writes the reference of the C interface from the public headers.

    python3 tools/apidoc.py INCLUDE_FOLDER -o OUTPUT_FOLDER

A page for each header of the folder and the folders in it: each type and each
function with the comment above it, in the order of the header. A comment stands
for all declarations that follow it without an empty line or another comment.
Fails if a function is on no page, or if a comment lacks a part of the contract
(CONTRACT below). What the head of spc.h says of all functions, such as a NULL or
threads, need not be said again.
"""
import argparse
import re
import sys
from pathlib import Path

TOKEN = re.compile(r"/\*.*?\*/|\n[ \t]*\n|[^/\n]+|\n|/", re.S)
SECTION = re.compile(r"/\* -{3,} (.*?) -+ \*/$", re.S)
NAME = re.compile(r"(\w+)\s*\(")
# A function whose declaration matches the first pattern has a comment that
# matches the second one; otherwise the third text is what the comment lacks.
CONTRACT = [(re.compile(has), re.compile(says, re.S), lacks)
            for has, says, lacks in (
    (r"SPC_API spc_status", r"\bSPC_E[A-Z]+\b|\b[Aa]s `?spc_\w+|\bThe same\b",
     "what it returns on failure, and when"),
    (r"\*\*\s*out\b", r"\b(frees?|releases?|owns)\b", "who frees *out"),
    (r"SPC_API (?!const char)[\w ]+\*", r"\b(lives?|stays?|until|owns?|as long)\b",
     "how long the result lives"),
    (r"(const (void|float|double|u?int\d+_t) |\b(void|float|u?int8_t) )\*"
     r"(const \*)?(?!out\b|stream\b|payload\b|count\b|memory\b)\w+\s*[,)]",
     r"\[|\bbytes\b|\bentries\b|\bThe same\b|\b[Aa]s spc_",
     "the shape of an array"),
)]
# Declarations that implement an algorithm: the comment names the source.
SOURCE = re.compile(r"\b(1[89]|20)\d\d\b|\bsection \d|PTX ISA|IEEE")
SOURCED = {"spc_rule", "spc_operator", "spc_accumulator", "spc_feature_op",
           "spc_voxel_features", "spc_regrouping", "spc_map_create",
           "spc_points_options", "spc_net_masked", "spc_net_init_params"}


def text_of(comment):
    """The lines of a comment without its stars."""
    lines = comment[2:-2].split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line, count=1) if i else line.strip()
             for i, line in enumerate(lines)]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def escape(text):
    """Plain text as Markdown; our names and `words` in backquotes are code."""
    parts = re.split(r"(`[^`]*`|\b(?:SPC|spc)_\w+(?:\(\))?)", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            part = re.sub(r"([*\[\]|#])", r"\\\1", part)
            parts[i] = part.replace("<", "&lt;")
        elif not part.startswith("`"):
            parts[i] = "`%s`" % part
    return "".join(parts)


def markdown(text):
    """Paragraphs flow; those with indented lines keep their columns."""
    out = []
    for block in re.split(r"\n\s*\n", text):
        if not block.strip():
            continue
        lines = block.split("\n")
        indented = [l for l in lines if re.match(r"\s{2,}\S", l)]
        listed = any(re.match(r" ?[-*] \S", l) for l in lines)
        if indented and not listed:
            while lines and not lines[0].startswith("  "):
                out.append(escape(lines.pop(0)))
            out += ["", "```text", *lines, "```", ""]
        else:
            items = re.sub(r"\n\s+(?![-*] |\s)", " ", block)
            items = re.sub(r"(?m)^\s*[-*] (?=\S)", "- ", items)
            items = re.sub(r"(?m)^(?!- )(.*)\n- ", "\\1\n\n- ", items)
            out += [escape(l) if not l.startswith("- ")
                    else "- " + escape(l[2:]) for l in items.split("\n")] + [""]
    return "\n".join(out)


def declarations(code):
    """The declarations of a piece of code, each as it is written."""
    out, depth, start = [], 0, 0
    plain = re.sub(r"/\*.*?\*/", lambda m: " " * len(m.group()), code,
                   flags=re.S)
    for i, c in enumerate(plain):
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            # A comment that begins on the same line belongs to it.
            behind = re.match(r"[ \t]*/\*.*?\*/", code[i + 1:], re.S)
            end = i + 1 + (behind.end() if behind else 0)
            out.append(code[start:end].strip("\n"))
            start = end
    return [d for d in out if d.strip()]


def name_of(declaration):
    plain = re.sub(r"/\*.*?\*/", " ", declaration, flags=re.S).strip()
    if plain.startswith("SPC_API"):
        return NAME.search(plain).group(1), "function"
    found = re.search(r"(\w+)\s*;$", plain) or \
        re.match(r"typedef .*?\(\*(\w+)\)", plain, re.S)
    if plain.startswith("typedef") and found:
        return found.group(1), "type"
    if plain.startswith("enum") and found is None:
        return re.search(r"{\s*(\w+)", plain).group(1), "constants"
    return None, None


def units(text):
    """(section | comment, code) pairs of a header, in their order."""
    body = text[text.index("#define"):] if "#define" in text else text
    body = re.sub(r"(?m)^#.*(\\\n.*)*$", "", body)
    body = body.replace('extern "C" {', "")
    body = re.sub(r"(?m)^}\s*$", "", body)
    comment, code = None, ""
    depth = 0
    for token in TOKEN.findall(body):
        top = token.startswith("/*") and depth == 0
        section = SECTION.match(token) if top else None
        starts = top and (not code.strip() or code.rstrip().endswith(";")) \
            and code[-1:] in ("", "\n")
        if starts:
            if code.strip() or comment:
                yield None, comment, code
            comment, code = (None if section else token), ""
            if section:
                yield section.group(1), None, ""
            continue
        if not token.startswith("/*"):
            depth += token.count("{") - token.count("}")
        if re.fullmatch(r"\n[ \t]*\n", token) and depth == 0 and code.strip():
            yield None, comment, code
            comment, code = None, ""
            continue
        code += token
    if code.strip():
        yield None, comment, code


def lacking(name, kind, declaration, comment):
    """The parts of the contract that the comment of a declaration lacks."""
    own = re.findall(r"/\*.*?\*/", declaration, re.S)
    text = " ".join([comment or ""] + own)
    text = re.sub(r"\s*\n\s*\*?\s*", " ", text)
    plain = " ".join(re.sub(r"/\*.*?\*/", " ", declaration,
                            flags=re.S).split())
    out = []
    if kind == "function" and not text.strip():
        out = ["a comment"]
    elif kind == "function":
        out = [lacks for has, says, lacks in CONTRACT
               if has.search(plain) and not says.search(text)]
    if name in SOURCED and not SOURCE.search(text):
        out.append("the source of the algorithm")
    return out


def page(path, include):
    """The page of a header, and what the comments of it lack."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(include)
    head = re.match(r"\s*(/\*.*?\*/)", text, re.S)
    out, bare = ["# %s" % name, ""], []
    if head:
        purpose = text_of(head.group(1))
        purpose = re.sub(r"^\S+ - ", "", purpose.strip())
        out += [markdown(purpose[:1].upper() + purpose[1:]), ""]
    out += ["```c", '#include <%s>' % name, "```", ""]
    for section, comment, code in units(text):
        if section:
            out += ["## " + section[:1].upper() + section[1:], ""]
            continue
        parts = declarations(code)
        named = [(name_of(d), d) for d in parts]
        named = [(n, d) for (n, kind), d in named if n]
        if comment and not named:
            out += [markdown(text_of(comment)), ""]
            continue
        if not named:
            continue
        for d in parts:
            n, kind = name_of(d)
            bare += ["%s: %s lacks %s" % (name, n, what)
                     for what in lacking(n, kind, d, comment)]
        out += ["### " + ", ".join("`%s`" % n for n, _ in named[:3]) +
                (" and others" if len(named) > 3 else ""), ""]
        if comment:
            out += [markdown(text_of(comment)), ""]
        out += ["```c", "\n".join(re.sub(r"SPC_API\s+", "", d)
                                  for _, d in named), "```", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)), bare


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("include")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    include, output = Path(args.include), Path(args.output)
    headers = sorted(include.rglob("*.h"))
    if not headers:
        sys.exit("apidoc.py: no header in %s" % include)
    missing, functions, index = [], 0, ["# C interface", ""]
    lost, known = [], set()
    for path in headers:
        text, bare = page(path, include)
        name = path.relative_to(include).with_suffix(".md")
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(text, encoding="utf-8")
        known |= SOURCED & set(re.findall(r"\w+", path.read_text()))
        names = re.findall(r"(?m)^SPC_API[^(;]*?(\w+)\(", path.read_text())
        count = len(names)
        lost += [n for n in names if not re.search(r"\b%s\(" % n, text)]
        functions += count
        missing += bare
        index.append("- [%s](%s): %d functions" %
                     (path.relative_to(include), name, count))
    (output / "index.md").write_text("\n".join(index) + "\n")
    unknown = SOURCED - known
    print("\n".join(missing), end="\n" if missing else "")
    print("%d headers, %d functions, %d parts of contracts missing" %
          (len(headers), functions, len(missing)))
    if lost:
        print("on no page: " + " ".join(lost))
    if unknown:
        print("SOURCED in apidoc.py names no declaration: " +
              " ".join(sorted(unknown)))
    return bool(lost or missing or unknown)


if __name__ == "__main__":
    sys.exit(main())
