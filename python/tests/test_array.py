# SPDX-License-Identifier: Apache-2.0
"""Tests spctune.array on the cpu device, with NumPy."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

from support import dense_conv, scene

import spctune
from spctune import array, maps

ALLOWED = """
import spctune
layer = "subm,cin=8,cout=8,k=3,dtype=f32"
for wrong, says in (("forward=nothing", "unknown template 'nothing'"),
                    ("", "would allow nothing")):
    spctune.options(allow=wrong)
    try:
        spctune.explain(layer, 300, device="cpu")
        raise AssertionError(wrong)
    except spctune.InvalidError as error:
        assert says in str(error), error
spctune.options(allow="forward=generic")
found = spctune.explain(layer, 300, device="cpu")
assert found.kernel.startswith("generic "), found
"""

TUNING = """
import spctune
seen = []
report = spctune.tune(
    "subm,cin=5,cout=7,k=3,dtype=f32",
    ["gen:uniform,n=300,extent=12,seed=1"], "quick", 1.0, "cpu",
    lambda part, best: seen.append(part))
assert report.winner and report.winner_us > 0, report
assert seen and all(0 <= part <= 1 for part in seen), seen
row, = spctune.db("cpu")
assert "cin=5,cout=7" in row["layer"], row
assert row["choice"] == report.winner, row
"""
MEMORY = """
import ctypes, gc
import numpy as np
import spctune
from spctune import _abi, array, context, maps
from support import scene

held = {}

def hook(device):
    made = _abi.spc_memory_hook(ordered=True)

    def alloc(size, stream, payload):
        gc.collect()  # maps that ended are not freed within a call
        memory = np.zeros(size + 256, np.uint8)
        address = (memory.ctypes.data + 255) // 256 * 256
        held[address] = memory
        return address

    def free(address, size, stream, payload):
        del held[address]

    made.alloc, made.free = type(made.alloc)(alloc), type(made.free)(free)
    kept.append(made)
    return made

kept = []
context.memory_hooks["cpu"] = hook
coords = scene(300, 10)
x = np.ones((len(coords), 16), np.float32)
w = np.ones((16, 3, 3, 3, 16), np.float32)
most = 0
for i in range(20):
    circle = [array.make_map(coords, "conv,k=3,stride=2,rule=floor")]
    circle.append(circle)  # only the garbage collector ends this map
    array.conv(x, w, circle[0])
    most = max(most, len(held))
del circle
gc.collect()
array.make_map(coords, "subm,k=3")  # frees maps that ended within a call
gc.collect()
spctune.empty_cache()
assert most > 0
assert not maps.relations, len(maps.relations)
assert len(held) < most, (len(held), most)
print("held", len(held))
"""
CONV = "conv,k=3,stride=2,padding=1,rule=footprint,shape=12"


def random(*shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Layers(unittest.TestCase):
    def setUp(self):
        self.coords = scene(400, 12, batches=2)
        self.x = random(len(self.coords), 16)

    def close(self, got, want, dtype=np.float32):
        size = np.abs(want).max()
        limit = {np.float32: 1e-5, np.float16: 4e-3}[dtype]
        self.assertLess(np.abs(got - want).max(), limit * size)

    def test_a_submanifold_layer_is_that_of_the_definition(self):
        w, bias = random(24, 3, 3, 3, 16), random(24, seed=2)
        m = array.make_map(self.coords, "subm,k=3")
        want = dense_conv(self.x, self.coords, w, self.coords, 1, -1) + bias
        self.close(array.conv(self.x, w, m, bias), want)

    def test_half_precision_is_rounded_once(self):
        w = random(24, 3, 3, 3, 16, dtype=np.float16)
        x = self.x.astype(np.float16)
        m = array.make_map(self.coords, "subm,k=3")
        want = dense_conv(x, self.coords, w, self.coords, 1, -1)
        got = array.conv(x, w, m)
        self.assertEqual(got.dtype, np.float16)
        self.close(got, want, np.float16)

    def test_a_strided_layer_has_the_voxels_of_the_definition(self):
        w = random(8, 3, 3, 3, 16)
        m = array.make_map(self.coords, CONV)
        seen = {
            (b, *(v // 2 for v in at))
            for b, *c in self.coords.tolist()
            for at in np.ndindex(2, 2, 2)
            for at in [[p + q for p, q in zip(c, at)]]
            if all(v // 2 < 6 for v in at)
        }
        self.assertEqual([tuple(r) for r in m.coords().tolist()], sorted(seen))
        want = dense_conv(self.x, self.coords, w, m.coords(), 2, -1)
        self.close(array.conv(self.x, w, m), want)

    def test_gradients_are_those_of_the_definition(self):
        """For a linear function f, <f(x), g> = <x, gradient of g>."""
        for words in ("subm,k=3", "subm,k=2", CONV):
            with self.subTest(words):
                k = 2 if "k=2" in words else 3
                m = array.make_map(self.coords, words)
                w = random(24, k, k, k, 16)
                y = array.conv(self.x, w, m)
                g = random(*y.shape, seed=3)
                dx, dw = array.conv_gradients(g, self.x, w, m)
                for got, at in ((dx, self.x), (dw, w)):
                    step = random(*at.shape, seed=4)
                    moved = (
                        array.conv(step, w, m)
                        if at is self.x
                        else array.conv(self.x, step, m)
                    )
                    want = (moved.astype(float) * g).sum()
                    size = (np.abs(moved) * np.abs(g)).sum()
                    there = (got.astype(float) * step).sum()
                    self.assertLess(abs(there - want), 1e-6 * size)

    def test_an_inverse_layer_returns_to_the_rows_of_the_inputs(self):
        m = array.make_map(self.coords, CONV)
        back = array.inverse_map(m)
        self.assertEqual((back.rows_in, back.rows_out), (m.rows_out, m.rows_in))
        y, w = random(m.rows_out, 8), random(16, 3, 3, 3, 8)
        got = array.conv(y, w, back)
        # The layer's matrix is that of the strided layer's gradient.
        turned = np.ascontiguousarray(w.transpose(4, 1, 2, 3, 0))
        dx, _ = array.conv_gradients(y, self.x, turned, m)
        self.close(got, dx)

    def test_a_layer_between_two_given_sets(self):
        coarse = scene(80, 6, seed=5, batches=2)
        m = array.join_maps(
            self.coords, coarse, "conv,k=3,stride=2,rule=given,origin=-1"
        )
        w = random(8, 3, 3, 3, 16)
        self.close(
            array.conv(self.x, w, m),
            dense_conv(self.x, self.coords, w, coarse, 2, -1),
        )

    def test_no_voxels_are_no_failure(self):
        m = array.make_map(np.zeros((0, 4), np.int32), "subm,k=3")
        w = random(24, 3, 3, 3, 16)
        self.assertEqual(
            array.conv(np.zeros((0, 16), np.float32), w, m).shape, (0, 24)
        )
        m = array.make_map(np.zeros((0, 4), np.int32), CONV)
        self.assertEqual(m.coords().shape, (0, 4))

    def test_mistakes_are_named(self):
        m = array.make_map(self.coords, "subm,k=3")
        w = random(24, 3, 3, 3, 16)
        cases = (
            (
                lambda: array.make_map(self.coords[:, :3], "subm,k=3"),
                r"coords has the shape .* it is \[rows, 4\]",
            ),
            (
                lambda: array.make_map(self.coords[[0, 0]], "subm,k=3"),
                "rows 0 and 1 have the same coordinate",
            ),
            (lambda: array.make_map(self.coords, "subm,kk=3"), "'kk'"),
            (lambda: array.conv(self.x[1:], w, m), "rows and the map"),
            (
                lambda: array.conv(self.x, w.astype(np.float16), m),
                "x is float32 and weight float16",
            ),
            (
                lambda: array.conv(self.x, w.astype(float), m),
                "weight is float64",
            ),
            (lambda: array.conv(self.x, w, m, random(3)), "bias has the shape"),
            (lambda: m.coords(), "the caller has"),
            (lambda: array.inverse_map(m), "an inverse layer inverts"),
        )
        for call, sentence in cases:
            with (
                self.subTest(sentence),
                self.assertRaisesRegex(spctune.Error, sentence),
            ):
                call()


class Lives(unittest.TestCase):
    def setUp(self):
        self.coords = scene(300, 10)
        self.x = random(len(self.coords), 16)
        self.w = random(16, 3, 3, 3, 16)

    def test_maps_end_with_the_last_that_holds_them(self):
        gc.collect()
        before = len(maps.relations)
        m = array.make_map(self.coords, CONV)
        back = array.inverse_map(m)
        array.conv(self.x, self.w, m)
        self.assertEqual(len(maps.relations), before + 1)
        del m
        self.assertEqual(len(maps.relations), before + 1)
        del back
        self.assertEqual(len(maps.relations), before)

    def test_many_maps_take_no_more_memory_than_few(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096

        sizes = []
        for _ in range(3):
            for _ in range(100):
                array.conv(self.x, self.w, array.make_map(self.coords, CONV))
            sizes.append(resident())
        self.assertLess(sizes[2] - sizes[1], 2 << 20)

    def test_memory_comes_from_a_hook_and_goes_back(self):
        folder = os.path.dirname(os.path.abspath(spctune.__file__))
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(
            [sys.executable, "-B", "-c", MEMORY],
            env=dict(
                os.environ,
                PYTHONPATH=os.path.dirname(folder) + os.pathsep + here,
            ),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(
            (done.returncode, done.stdout), (0, "held 0\n"), done.stderr
        )

    def test_threads_share_a_map(self):
        m = array.make_map(self.coords, "subm,k=3")
        inputs = [random(len(self.coords), 16, seed=i) for i in range(4)]
        want = [array.conv(x, self.w, m) for x in inputs]
        wrong = []

        def work(i):
            for _ in range(100):
                got = array.conv(inputs[i], self.w, m)
                if not np.array_equal(got, want[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_threads_make_maps_and_plans_at_once(self):
        wrong = []

        def work(i):
            try:
                w = random(8 + 8 * i, 3, 3, 3, 16)
                for n in range(10):
                    words = CONV if n % 2 else "subm,k=3"
                    m = array.make_map(self.coords, words)
                    array.conv_gradients(array.conv(self.x, w, m), self.x, w, m)
            except BaseException as error:  # noqa: B036, told below
                wrong.append(repr(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_of_fork_makes_its_own_maps(self):
        m = array.make_map(self.coords, "subm,k=3")
        want = array.conv(self.x, self.w, m)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            answer = b"differs"
            try:
                own = array.make_map(self.coords, "subm,k=3")
                if np.array_equal(array.conv(self.x, self.w, own), want):
                    answer = b"own map: right; "
                try:
                    array.conv(self.x, self.w, m)
                except spctune.Error as error:
                    answer += str(error).encode()
            except BaseException as error:  # noqa: B036, told by the parent
                answer = repr(error).encode()
            os.write(write, answer)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            answer = pipe.read().decode()
        os.waitpid(child, 0)
        self.assertRegex(
            answer,
            "own map: right; a kernel map of the parent process cannot be used",
        )
        self.assertTrue(np.array_equal(array.conv(self.x, self.w, m), want))


class Tuning(unittest.TestCase):
    LAYER = "subm,cin=16,cout=16,k=3,dtype=f32"

    def test_explain_names_a_kernel_and_a_reason(self):
        found = spctune.explain(self.LAYER, 10000, device="cpu")
        self.assertIn(found.match, ("exact", "bucket", "nearest", "default"))
        self.assertGreater(found.weights_bytes, 27 * 16 * 16 * 4 - 1)
        self.assertTrue(found.reason)
        with self.assertRaisesRegex(spctune.Error, "'colour'"):
            spctune.explain("subm,colour=1", 1, device="cpu")

    def run_alone(self, program):
        """Runs in a process with its own database."""
        with tempfile.TemporaryDirectory() as folder:
            env = dict(
                os.environ,
                SPC_DATABASE=os.path.join(folder, "new.db"),
                PYTHONPATH=os.path.dirname(os.path.dirname(spctune.__file__)),
            )
            done = subprocess.run(
                [sys.executable, "-B", "-c", program],
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_tune_stores_what_db_finds(self):
        self.run_alone(TUNING)

    def test_only_allowed_templates_are_used(self):
        self.run_alone(ALLOWED)

    def test_a_missing_scene_is_named(self):
        with self.assertRaisesRegex(spctune.NotFoundError, "nothing.bin"):
            spctune.tune(self.LAYER, ["nothing.bin@0.1"], device="cpu")
        with self.assertRaisesRegex(ValueError, "unknown effort 'fast'"):
            spctune.tune(self.LAYER, ["gen:room@0.1"], "fast", device="cpu")

    def test_a_wrong_option_is_named(self):
        with self.assertRaisesRegex(ValueError, "unknown option 'colour'"):
            spctune.options(colour=1)
        with self.assertRaisesRegex(ValueError, "background='no'"):
            spctune.options(background="no")


if __name__ == "__main__":
    unittest.main()
