# SPDX-License-Identifier: Apache-2.0
"""Tests the mirror of the headers, and the library check at import."""

import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import spctune
from spctune import _abi, _lib

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(spctune.__file__)))
HEADER = """
#include <stddef.h>
int spc_version(void) { return %d; }
size_t spc_struct_bytes(const char *name) { return %s; }
"""


def import_with(library):
    """Returns the text on standard error of an import with another library."""
    env = dict(os.environ, SPC_LIBRARY=library, PYTHONPATH=PACKAGE)
    return subprocess.run(
        [sys.executable, "-c", "import spctune"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


class Mirror(unittest.TestCase):
    def test_every_struct_has_the_size_of_the_library(self):
        self.assertGreater(len(_abi.STRUCTS), 30)
        for struct in _abi.STRUCTS:
            with self.subTest(struct.__name__):
                self.assertEqual(
                    _lib.lib.spc_struct_bytes(struct.__name__.encode()),
                    ctypes.sizeof(struct),
                )

    def test_the_package_uses_names_of_the_mirror_only(self):
        folder = os.path.dirname(os.path.abspath(spctune.__file__))
        used = 0
        for path in glob.glob(os.path.join(folder, "**/*.py"), recursive=True):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for name in re.findall(r"\b(?:lib|fast)\.(spc_\w+)", text):
                self.assertIn(name, _abi.FUNCTIONS, path)
                used += 1
            for name in re.findall(r"\b_abi\.((?:spc|SPC)_\w+)", text):
                self.assertTrue(hasattr(_abi, name), (path, name))
        self.assertGreater(used, 30)

    def test_a_struct_has_the_values_of_its_macro(self):
        conv = _lib.new(_abi.spc_conv, cin=8)
        self.assertEqual((conv.groups, conv.cin), (1, 8))
        self.assertEqual(list(conv.geometry.kernel), [3, 3, 3])
        self.assertEqual(list(conv.geometry.origin), [-(2**31)] * 3)
        options = _lib.new(_abi.spc_ctx_options)
        self.assertIsNone(options.device)
        self.assertFalse(options.memory.alloc)

    def test_a_layer_comes_back_as_it_was_parsed(self):
        text = b"subm,cin=16,cout=24,k=3x3x1,dtype=f32"
        conv, error = _abi.spc_conv(), _abi.spc_error()
        _lib.check(_lib.lib.spc_conv_parse(conv, text, error), error)
        self.assertEqual(list(conv.geometry.kernel), [3, 3, 1])
        again = _lib.text_of(_lib.lib.spc_conv_format, conv)
        self.assertIn("cout=24", again)

    def test_a_failure_is_an_exception_with_the_sentence(self):
        conv, error = _abi.spc_conv(), _abi.spc_error()
        with self.assertRaisesRegex(spctune.Error, "'bread'") as caught:
            _lib.check(
                _lib.lib.spc_conv_parse(conv, b"subm,bread=1", error), error
            )
        self.assertEqual(caught.exception.status, "SPC_EINVAL")
        self.assertIsInstance(caught.exception, ValueError)


@unittest.skipUnless(shutil.which("cc"), "no C compiler (cc)")
class AtImport(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def library(self, text):
        source = os.path.join(self.folder.name, "other.c")
        out = os.path.join(self.folder.name, "libspc.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", out, source], check=True
        )
        return out

    def refused(self, text, sentence):
        done = import_with(self.library(text))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr.splitlines()[-1], "ImportError: .*" + sentence
        )

    def test_another_version_is_refused(self):
        self.refused(
            HEADER % (_abi.VERSION + 100, "8"),
            "has version %s.*made for version %s"
            % (
                _lib.version_text(_abi.VERSION + 100),
                _lib.version_text(_abi.VERSION),
            ),
        )

    def test_another_size_of_a_struct_is_refused(self):
        self.refused(
            HEADER % (_abi.VERSION, "8"),
            "struct spc_error has 8 bytes, and this package expects",
        )

    def test_a_library_without_a_version_is_refused(self):
        self.refused("int nothing;", "is not a libspclab, or an old one")

    def test_a_missing_function_is_refused(self):
        sizes = (
            "".join(
                '__builtin_strcmp(name, "%s") == 0 ? %d : '
                % (s.__name__, ctypes.sizeof(s))
                for s in _abi.STRUCTS
            )
            + "0"
        )
        self.refused(
            HEADER % (_abi.VERSION, sizes),
            re.escape("has no function spc_status_name()"),
        )

    def test_a_missing_library_is_named(self):
        done = import_with("/nowhere/libspc.so.0")
        self.assertIn("/nowhere/libspc.so.0", done.stderr.splitlines()[-1])
        self.assertIn("set SPC_LIBRARY", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
