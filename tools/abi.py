#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py - writes the ctypes mirror of the public headers.

    python3 tools/abi.py [--cc CC] [--check] [INCLUDE_FOLDER [OUTPUT]]

Reads what the C preprocessor makes of spc.h and the headers in spc/:
enumerations, structs, functions, and the SPC_..._INIT macros. Writes
python/spctune/_abi.py, or, with --check, fails if that file is stale. --check
also has the C compiler compare the size of each struct and the place of each
field with those of ctypes. A declaration that this parser does not understand
is an error; none is skipped.
"""

import argparse
import ctypes
import os
import pprint
import re
import subprocess
import sys
import tempfile
import textwrap
import types

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
TOKEN = re.compile(r"\s*(\w+|\.\.\.|<<|\S)")
SCALARS = {
    "bool": "c_bool",
    "_Bool": "c_bool",
    "char": "c_char",
    "int": "c_int",
    "unsigned": "c_uint",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    "int8_t": "c_int8",
    "uint8_t": "c_uint8",
    "int16_t": "c_int16",
    "uint16_t": "c_uint16",
    "int32_t": "c_int32",
    "uint32_t": "c_uint32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
}
QUALIFIERS = {"const", "volatile", "extern", "struct", "enum", "restrict"}
# Names that Python keeps for itself.
KEYWORDS = {"in": "in_", "pass": "pass_", "from": "from_", "is": "is_"}


def preprocess(cc, include, text, flags=()):
    """`text`, which includes a header, after the C preprocessor."""
    done = subprocess.run(
        [*cc.split(), "-std=c11", "-E", *flags, "-I", include, "-x", "c", "-"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit("abi.py: the preprocessor failed:\n" + done.stderr)
    return done.stdout


def headers(include):
    """The lines that include spc.h and the headers in the folder spc."""
    more = sorted(os.listdir(os.path.join(include, "spc")))
    return "".join(
        '#include "%s"\n' % name
        for name in ["spc.h", *("spc/" + m for m in more if m.endswith(".h"))]
    )


def ours(text, include):
    """The lines that came from the folder `include`."""
    include = os.path.realpath(include) + os.sep
    out, keep = [], False
    for line in text.split("\n"):
        marker = re.match(r'#\s+\d+ "([^"]*)"', line)
        if marker:
            keep = os.path.realpath(marker.group(1)).startswith(include)
        elif keep and not line.startswith("#"):
            out.append(line)
    return "\n".join(out)


class Parser:
    """A reader of the declarations of plain C headers."""

    def __init__(self, text):
        self.tokens = TOKEN.findall(text)
        self.at = 0
        self.constants = {}  # name -> value
        self.types = {}  # name -> ctypes expression
        self.structs = {}  # name -> fields, in order
        self.functions = {}  # name -> (result, arguments)
        self.order = []  # (kind, name), as in the headers

    def peek(self, ahead=0):
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def take(self, expected=None):
        token = self.peek()
        if expected is not None and token != expected:
            near = " ".join(self.tokens[max(0, self.at - 12) : self.at + 4])
            sys.exit(
                "abi.py: expected '%s' and found '%s' near: %s"
                % (expected, token, near)
            )
        self.at += 1
        return token

    def skip_attributes(self):
        while self.peek() == "__attribute__":
            self.take()
            depth = 0
            while True:
                token = self.take()
                depth += (token == "(") - (token == ")")
                if not depth:
                    break

    def value(self, stops):
        """A constant expression up to one of `stops`, which stays."""
        words = []
        while self.peek() not in stops:
            words.append(self.take())
        return int(eval(" ".join(words), {}, dict(self.constants)))

    # ---- types ----

    def base(self):
        """Type words: ("int", ...), without the declarator behind them."""
        words = []
        while re.match(r"[A-Za-z_]\w*$", self.peek()):
            token = self.peek()
            if token in QUALIFIERS:
                self.take()
                continue
            if words and not (token in SCALARS and words[-1] == "unsigned"):
                break
            words.append(self.take())
        if not words:
            sys.exit("abi.py: no type before '%s'" % self.peek())
        return words[0] if len(words) == 1 else "unsigned"

    def pointers(self):
        stars = 0
        while self.peek() in ("*", "const", "volatile", "restrict"):
            stars += self.take() == "*"
        return stars

    def spell(self, base, stars):
        """The ctypes expression of a type."""
        if not stars:
            if base == "void":
                return "None"
            return SCALARS.get(base) or self.types[base]
        if base == "char" and stars == 1:
            return "c_char_p"
        if base in self.structs and stars == 1:
            return "POINTER(%s)" % base
        if stars == 1:
            return "c_void_p"
        return "POINTER(%s)" % self.spell(base, stars - 1)

    def arguments(self):
        """The types of "(...)"."""
        self.take("(")
        out = []
        while self.peek() != ")":
            out.append(self.declarator(self.base(), argument=True)[1])
            if self.peek() == ",":
                self.take()
        self.take(")")
        return [] if out == ["None"] else out

    def declarator(self, base, argument=False):
        """(name, ctypes expression) of what follows the words of a type."""
        stars = self.pointers()
        if self.peek() == "(" and self.peek(1) == "*":
            self.take()
            self.take()
            name = self.take()
            self.take(")")
            words = [self.spell(base, stars), *self.arguments()]
            return name, "CFUNCTYPE(%s)" % ", ".join(words)
        name = ""
        if re.match(r"[A-Za-z_]\w*$", self.peek()):
            name = self.take()
        sizes = []
        while self.peek() == "[":
            self.take()
            sizes.append(self.value("]"))
            self.take("]")
        if sizes and argument:
            return name, self.spell(base, stars + 1)
        expression = self.spell(base, stars)
        for size in reversed(sizes):
            expression = "%s * %d" % (expression, size)
            if len(sizes) > 1 and size is not sizes[0]:
                expression = "(%s)" % expression
        return name, expression

    # ---- declarations ----

    def enumerators(self):
        self.take("{")
        number = 0
        while self.peek() != "}":
            name = self.take()
            if self.peek() == "=":
                self.take()
                number = self.value((",", "}"))
            self.constants[name] = number
            self.order.append(("constant", name))
            number += 1
            if self.peek() == ",":
                self.take()
        self.take("}")

    def fields(self, owner):
        """[(name, expression)]; unions without a name become structs' own."""
        out = []
        self.take("{")
        while self.peek() != "}":
            if self.peek() == "union":
                self.take()
                inner = "%s__union%d" % (owner, len(out))
                self.structs[inner] = ("Union", self.fields(inner))
                self.order.append(("struct", inner))
                self.take(";")
                out.append(("", inner))
                continue
            base = self.base()
            while True:
                out.append(self.declarator(base))
                if self.take() == ";":
                    break
        self.take("}")
        return out

    def typedef(self):
        self.take("typedef")
        kind = self.peek()
        if kind in ("struct", "enum") and self.peek(2) in ("{", self.peek(1)):
            self.take()
            tag = self.take()
            if self.peek() != "{":  # typedef struct X X: opaque
                self.types[self.take()] = "c_void_p"
            elif kind == "enum":
                self.enumerators()
                self.types[self.take()] = "c_int"
            else:
                self.structs[tag] = ("Structure", None)  # may point to itself
                self.structs[tag] = ("Structure", self.fields(tag))
                self.types[self.take()] = tag
                self.order.append(("struct", tag))
        else:
            name, expression = self.declarator(self.base())
            self.types[name] = expression
        self.take(";")

    def declaration(self):
        self.skip_attributes()
        if self.peek() == "typedef":
            self.typedef()
        elif self.peek() == "enum" and self.peek(1) == "{":
            self.take()
            self.enumerators()
            self.take(";")
        else:
            base = self.base()
            result = self.spell(base, self.pointers())
            name = self.take()
            self.functions[name] = (result, self.arguments())
            self.skip_attributes()
            self.take(";")

    def parse(self):
        while self.peek():
            self.declaration()
        return self


def initialiser(text, constants):
    """The value of a C initialiser: braces become tuples."""
    text = re.sub(r"\(\(void\s*\*\)\s*0\)", "None", text)
    text = re.sub(r"\(\(_Bool\)\s*\+?\s*(\d)u?\)", r"\1", text)
    text = re.sub(r"(?<=[\d.])[fFuUlL]+\b", "", text)
    text = re.sub(r"sizeof\(\w+\)", "0", text)  # _lib.new() sets it
    text = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: "b" + m.group(), text)
    text = re.sub(r",?\s*}", ",)", text.replace("{", "("))
    names = {"true": True, "false": False, "NULL": None, **constants}
    return eval(text, {}, names)


def initialisers(cc, include, parser):
    """{struct: the values of its SPC_..._INIT macro}"""
    macros = preprocess(cc, include, headers(include), ("-dM",))
    names = re.findall(r"#define (SPC_\w+)_INIT\b", macros)
    wanted = [n.lower() for n in names if n.lower() in parser.structs]
    text = headers(include) + "".join(
        "@%s %s_INIT\n" % (n, n.upper()) for n in wanted
    )
    text += "@version SPC_VERSION_NUMBER\n@end\n"
    tail = preprocess(cc, include, text, ("-P",)).split("@")
    values = {}
    for part in tail[1:-1]:
        name, _, value = part.strip().partition(" ")
        values[name] = initialiser(value, parser.constants)
    version = values.pop("version")
    return version, dict(sorted(values.items()))


def wrapped(head, words, tail, indent="    "):
    """`head`, the words with commas, and `tail`, in lines of 80 columns."""
    one = head + ", ".join(words) + tail
    if len(one) <= 80:
        return one
    lines, line = [head], indent
    for i, word in enumerate(words):
        last = i == len(words) - 1
        word += tail if last else ","
        if len(line) + len(word) > 80 and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += word + " "
    return "\n".join([*lines, line.rstrip()])


def struct_text(name, kind, fields):
    """The class of a struct, in lines."""
    words, anonymous = [], []
    for field, expression in fields:
        if not field:
            field = "_" + expression.rpartition("__")[2]
            anonymous.append(field)
        words.append('("%s", %s)' % (KEYWORDS.get(field, field), expression))
    body = ["class %s(%s):" % (name, kind)]
    if anonymous:
        body.append(
            "    _anonymous_ = (%s,)" % ", ".join('"%s"' % a for a in anonymous)
        )
    body.append(
        "    _fields_ = [\n"
        + "".join("        %s,\n" % w for w in words)
        + "    ]"
    )
    return "\n".join(body)


def generate(cc, include):
    text = preprocess(cc, include, headers(include))
    parser = Parser(ours(text, include)).parse()
    version, values = initialisers(cc, include, parser)
    out = [
        "# SPDX-License-Identifier: Apache-2.0",
        '"""The ctypes mirror of libspc\'s public headers.',
        "",
        "Generated by tools/abi.py; do not edit.",
        '"""',
        '# mypy: disable-error-code="misc"',
        "@imports",
        "from typing import Any, Dict, Tuple",
        "",
        "# SPC_VERSION_NUMBER of the headers.",
        "VERSION = %d" % version,
        "",
    ]
    for kind, name in parser.order:
        if kind == "constant":
            out.append("%s = %d" % (name, parser.constants[name]))
        else:
            out += ["", "", struct_text(name, *parser.structs[name]), ""]
    structs = [n for k, n in parser.order if k == "struct" and "__" not in n]
    out += [
        "",
        "",
        "# Structs whose size spc_struct_bytes() tells.",
        "STRUCTS: Tuple[Any, ...] = (",
        *["    %s," % name for name in structs],
        ")",
    ]
    out += [
        "",
        "# The values of the macros SPC_..._INIT.",
        "INIT: Dict[Any, Tuple[Any, ...]] = {",
    ]
    for name, value in values.items():
        lines = pprint.pformat(value, width=70, compact=True)
        out.append("    %s:\n" % name + textwrap.indent(lines, " " * 8) + ",")
    out += [
        "}",
        "",
        "# The result and the arguments of every function.",
        "FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {",
    ]
    for name, (result, arguments) in parser.functions.items():
        words = list(arguments)
        tail = ",))," if len(words) == 1 else ")),"
        out.append(
            wrapped('    "%s": (%s, (' % (name, result), words, tail, " " * 8)
        )
    out.append("}")
    text = "\n".join(out) + "\n"
    used = set(
        re.findall(r"\b(?:c_\w+|CFUNCTYPE|POINTER|Structure|Union)\b", text)
    )
    text = text.replace(
        "@imports", wrapped("from ctypes import (", sorted(used), ")", " " * 4)
    )
    return re.sub(r"\n{4,}", "\n\n\n", text)


def check_layout(cc, include, text):
    """Has the compiler compare sizes and places of fields with ctypes."""
    module = types.ModuleType("_abi")
    exec(compile(text, "_abi.py", "exec"), module.__dict__)
    back = {v: k for k, v in KEYWORDS.items()}
    lines = [
        headers(include),
        '#define AT(s, f, n) _Static_assert(offsetof(s, f) == n, #s "." #f)',
        "#define SIZE(s, n) _Static_assert(sizeof(s) == n, #s)",
        "#define IS(c, n) _Static_assert(c == n, #c)",
    ]
    for struct in module.STRUCTS:
        name = struct.__name__
        lines.append("SIZE(%s, %d);" % (name, ctypes.sizeof(struct)))
        for field in struct._fields_:
            if field[0] in getattr(struct, "_anonymous_", ()):
                continue
            place = getattr(struct, field[0]).offset
            lines.append(
                "AT(%s, %s, %d);" % (name, back.get(field[0], field[0]), place)
            )
    for name, value in vars(module).items():
        if name.startswith("SPC_"):
            lines.append("IS(%s, %d);" % (name, value))
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        source.write("\n".join(lines) + "\n")
        source.flush()
        done = subprocess.run(
            [
                *cc.split(),
                "-std=c11",
                "-fsyntax-only",
                "-I",
                include,
                source.name,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit("abi.py: ctypes and the compiler differ:\n" + done.stderr)
    return len(lines) - 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "include", nargs="?", default=os.path.join(TOP, "include")
    )
    parser.add_argument(
        "output",
        nargs="?",
        default=os.path.join(TOP, "python", "spctune", "_abi.py"),
    )
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = generate(args.cc, args.include)
    compared = check_layout(args.cc, args.include, text)
    if not args.check:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text)
        return
    with open(args.output, encoding="utf-8") as file:
        if file.read() != text:
            sys.exit("%s is stale; run: python3 tools/abi.py" % args.output)
    print("%d sizes, places and constants agree with the compiler" % compared)


if __name__ == "__main__":
    main()
