# SPDX-License-Identifier: Apache-2.0
# Turns the Markdown of docs/spctune.1.md into roff: underlined headings,
# paragraphs, lists of one level, code indented by four blanks, `code` and
# *emphasis* within lines.   awk -v version=1.0.0 -f man.awk spctune.1.md

# A line that begins with a point or an apostrophe would be a request.
function guard(text) {
    return text ~ /^[.']/ ? "\\&" text : text
}

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}

function inline(text,    out, at, mark, end) {
    text = escape(text)
    out = ""
    while ((at = match(text, /[`*]/)) > 0) {
        mark = substr(text, at, 1)
        out = out substr(text, 1, at - 1)
        text = substr(text, at + 1)
        end = index(text, mark)
        if (end == 0) { # it stands for itself
            out = out mark
            continue
        }
        out = out (mark == "`" ? "\\fB" : "\\fI") substr(text, 1, end - 1) \
            "\\fR"
        text = substr(text, end + 1)
    }
    return guard(out text)
}

# Emphasis may continue in the next line, so a paragraph is joined first.
function flush() {
    if (paragraph != "")
        print inline(paragraph)
    paragraph = ""
}

function add(text) {
    paragraph = paragraph == "" ? text : paragraph " " text
}

function heading(text, is_title) {
    flush()
    if (!is_title) {
        print ".SH " text
        return
    }
    print ".TH SPCTUNE 1 \"\" \"spctune " version "\""
    print ".SH NAME"
    sub(/\(1\) --/, " \\-", text)
    print text
}

{ lines[NR] = $0 }

END {
    for (i = 1; i <= NR; i++) {
        line = lines[i]
        is_code = line ~ /^    / && !in_item
        if (was_code && !is_code)
            print ".fi\n.RE"
        if (lines[i + 1] ~ /^(===+|---+)$/) {
            heading(line, lines[++i] ~ /^=/)
        } else if (is_code) {
            flush()
            print (was_code ? "" : ".PP\n.RS 4\n.nf\n") \
                guard(escape(substr(line, 5)))
        } else if (line ~ /^\* /) {
            flush()
            print ".TP 2\n\\(bu"
            add(substr(line, 3))
            in_item = 1
        } else if (line == "") {
            flush()
            in_item = 0
        } else {
            if (paragraph == "" && !in_item)
                print ".PP"
            sub(/^ +/, "", line)
            add(line)
        }
        was_code = is_code
    }
    flush()
}
