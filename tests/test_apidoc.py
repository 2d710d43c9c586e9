# SPDX-License-Identifier: Apache-2.0
"""Tests which comments of a header tools/apidoc.py refuses."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "tools"))
import apidoc  # noqa: E402

HEAD = "/* spc/x.h - a header. */\n#define X\n\n"
GOOD = """/* Makes a thing of `values` [rows]. The caller frees *out. SPC_EINVAL: no
 * rows. */
SPC_API spc_status spc_thing_create(spc_thing **out, const float *values,
                                    int rows);
/* Its numbers, which live as long as the thing. */
SPC_API const float *spc_thing_data(const spc_thing *thing);
"""


def lacks(text):
    """Return what the comments of this header lack, by function."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.h"
        path.write_text(HEAD + text, encoding="utf-8")
        return apidoc.page(path, Path(folder))[1]


class Contract(unittest.TestCase):
    def test_a_whole_contract_is_accepted(self):
        self.assertEqual(lacks(GOOD), [])

    def test_each_part_that_is_left_out_is_named(self):
        for part, lacking in (
            ("SPC_EINVAL: no\n * rows.", "what it returns on failure, and when"),
            ("The caller frees *out.", "who frees *out"),
            (" [rows]", "the shape of an array"),
            (", which live as long as the thing", "how long the result lives"),
        ):
            self.assertIn(part, GOOD)
            found = lacks(GOOD.replace(part, ""))
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].endswith(" lacks " + lacking), found)

    def test_a_function_without_a_comment_is_named(self):
        found = lacks(GOOD + "\nSPC_API void spc_thing_free(spc_thing *thing);\n")
        self.assertEqual(found, ["x.h: spc_thing_free lacks a comment"])

    def test_a_comment_behind_a_declaration_counts(self):
        found = lacks(GOOD + "\nSPC_API void spc_thing_free(spc_thing *thing); "
                      "/* NULL is fine */\n")
        self.assertEqual(found, [])

    def test_an_algorithm_has_a_source(self):
        declaration = "typedef enum spc_rule {\n    SPC_A = 0\n} spc_rule;\n"
        self.assertEqual(lacks("/* The rules. */\n" + declaration),
                         ["x.h: spc_rule lacks the source of the algorithm"])
        self.assertEqual(lacks("/* The rules (CVPR 2018). */\n" + declaration),
                         [])

    def test_the_public_headers_are_whole_and_a_fault_in_one_is_found(self):
        include = Path(here) / ".." / "include"
        for name, cut in (("spc/net.h", None),
                          ("spc/net.h", "SPC_ENOTFOUND: no database; SPC_EDB.")):
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "include"
                for path in include.rglob("*.h"):
                    to = copy / path.relative_to(include)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    text = path.read_text(encoding="utf-8")
                    if str(path.relative_to(include)) == name and cut:
                        self.assertIn(cut, text)
                        text = text.replace(cut, "")
                    to.write_text(text, encoding="utf-8")
                sys.argv = ["apidoc.py", str(copy), "-o", folder + "/api"]
                told = io.StringIO()
                with contextlib.redirect_stdout(told):
                    failed = apidoc.main()
                self.assertEqual(failed, cut is not None, told.getvalue())
                self.assertEqual("spc_net_each lacks what it returns" in
                                 told.getvalue(), cut is not None)


if __name__ == "__main__":
    unittest.main()
