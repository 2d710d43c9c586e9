# SPDX-License-Identifier: Apache-2.0
"""Tests tools/pth2safetensors.py without PyTorch, on a double of it.

    python3 test_pth2safetensors.py SPCTUNE: also reads the result with spctune.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import types
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "tools"))
import pth2safetensors as tool  # noqa: E402

spctune = None


class Tensor:
    """The part of torch.Tensor that the tool uses: little-endian bytes."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, shape, data

    def detach(self):
        return self

    cpu = contiguous = detach

    def reshape(self, size):
        assert size == -1
        return self

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def view(self, dtype):
        assert dtype == "bytes"
        return self

    def numpy(self):
        return self

    def tobytes(self):
        return self.data


def torch_with(checkpoint):
    def load(path, map_location, weights_only):
        assert map_location == "cpu" and weights_only
        return checkpoint
    return types.SimpleNamespace(
        load=load, uint8="bytes", is_tensor=lambda v: isinstance(v, Tensor))


weight = Tensor("torch.float32", (2, 3), struct.pack("<6f", *range(6)))
steps = Tensor("torch.int64", (), struct.pack("<q", 7))
half = Tensor("torch.bfloat16", (1,), b"\x80\x3f")
nothing = Tensor("torch.float16", (0, 4), b"")


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length]), data[8 + length:]


class Conversion(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.folder.name, "m.safetensors")

    def tearDown(self):
        self.folder.cleanup()

    def convert(self, checkpoint, key=None):
        return tool.convert(torch_with(checkpoint), "m.pth", self.out, key)

    def test_arrays_are_written_with_their_types_shapes_and_bytes(self):
        table = {"half": half, "conv.weight": weight, "bn.steps": steps,
                 "none": nothing}
        self.assertEqual(self.convert(table), 4)
        header, data = read(self.out)
        for name, tensor in table.items():
            begin, end = header[name]["data_offsets"]
            self.assertEqual(data[begin:end], tensor.data)
            self.assertEqual(header[name]["shape"], list(tensor.shape))
            self.assertEqual(header[name]["dtype"],
                             tool.TYPES[tensor.dtype])
        self.assertEqual(header["bn.steps"]["data_offsets"], [0, 8])
        self.assertEqual(sum(len(t.data) for t in table.values()), len(data))

    def test_the_table_is_found_in_what_trainers_save(self):
        for checkpoint, key in (({"w": weight}, None),
                                ({"epoch": 3, "model_state": {"w": weight}},
                                 None),
                                ({"net": {"enc": {"w": weight}}}, "net.enc")):
            self.assertEqual(self.convert(checkpoint, key), 1)
            self.assertIn("w", read(self.out)[0])

    def test_what_is_wrong_is_said(self):
        strange = Tensor("torch.complex64", (1,), b"12345678")
        for checkpoint, key, said in (
                ({"a": {"w": weight}, "b": {"w": weight}}, None, "a, b"),
                ({"epoch": 3}, None, "no dict of tensors"),
                ([1], None, "state_dict"),
                ({"a": {"w": weight}}, "c", "no 'c'"),
                ({"a": {"w": 1}}, "a", "no tensors"),
                ({"w": strange}, None, "complex64")):
            with self.assertRaisesRegex(tool.Mistake, said):
                self.convert(checkpoint, key)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_code_of_a_file_is_run_only_where_that_is_allowed(self):
        def load(path, map_location, weights_only):
            if weights_only:
                raise ValueError("unsupported global")
            return {"w": weight}
        torch = torch_with(None)
        torch.load = load
        with self.assertRaisesRegex(tool.Mistake, "unsupported global.*--trust"):
            tool.convert(torch, "m.pth", self.out, None)
        self.assertEqual(tool.convert(torch, "m.pth", self.out, None, True), 1)

    def test_spctune_reads_it(self):
        if spctune is None:
            self.skipTest("no spctune")
        self.convert({"conv.weight": weight, "half": half})
        said = subprocess.run([spctune, "weights", self.out, "--json"],
                              capture_output=True, text=True, check=False)
        if said.returncode == 7:
            self.skipTest(said.stderr)
        self.assertEqual([(row["name"], row["type"], row["shape"])
                          for row in json.loads(said.stdout)],
                         [("conv.weight", "F32", [2, 3]),
                          ("half", "BF16", [1])])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        spctune = sys.argv.pop(1)
    unittest.main()
