# SPDX-License-Identifier: Apache-2.0
"""Runs every script of benchmarks/ with tiny scenes on the processor, and
plants faults that its checks have to find."""

import csv
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

try:
    import numpy  # noqa: F401
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from None

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "benchmarks")
# The modules of that folder, and another package of this name, stay apart.
sys.path.insert(0, FOLDER)
try:
    import all as driver
    import engines
    import harness
    import networks
    import papers
    import peers
    import reference
    from harness import Entry
finally:
    sys.path.remove(FOLDER)

HAS_SPCONV = importlib.util.find_spec("spconv") is not None
# Scripts that compare whole layers of all engines of voxels.
BESIDE_SPCONV = ("spira_layers", "spira_networks", "flexgemm_speed")
NOT_COMPARED = {  # the command compares with the oracle by itself
    "spira_threshold",
    "spira_indexing",
    "spira_keys",
    "warpconvnet_algorithms",
}


def bench(**more):
    args = {
        "device": "cpu",
        "seconds": 30,
        "share": 0.05,
        "rounds": 3,
        "quick": True,
        "tune": False,
        "engines": "spctune",
        "scenes": None,
        "command": None,
        "out": "",
    }
    return harness.Bench("test", types.SimpleNamespace(**{**args, **more}))


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        words = [sys.executable, "-B", os.path.join(FOLDER, "all.py")]
        words += ["--out", cls.folder.name, "--device", "cpu", "--quick"]
        package = os.path.dirname(HERE)
        env = dict(os.environ, PYTHONPATH=package)
        cls.done = subprocess.run(
            [*words, "--seconds", "3000"],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_all_scripts_end_well(self):
        said = self.done.stdout + self.done.stderr
        self.assertEqual(self.done.returncode, 0, said)
        self.assertEqual(said.count(" rows, "), len(papers.scripts()), said)

    def test_every_row_is_near_the_reference(self):
        for name in papers.scripts():
            rows = papers.read(f"{self.folder.name}/{name}.csv")
            with self.subTest(name):
                self.assertTrue(
                    any(r["engine"].startswith("spctune") for r in rows)
                )
                compared = [r for r in rows if r["off"]]
                self.assertEqual(bool(compared), name not in NOT_COMPARED)
                for row in compared:
                    self.assertLess(float(row["off"]), 1e-3, row)
                    self.assertLess(float(row["off_after"]), 1e-3, row)

    @unittest.skipIf(not HAS_SPCONV, "spconv is not installed")
    def test_spconv_is_a_peer(self):
        for name in BESIDE_SPCONV:
            rows = papers.read(f"{self.folder.name}/{name}.csv")
            with self.subTest(name):
                self.assertIn("spconv", {row["engine"] for row in rows})
                self.assertTrue(papers.gains(rows))

    def test_templates_run_alone(self):
        rows = papers.read(f"{self.folder.name}/flexgemm_algorithms.csv")
        engines = {row["engine"] for row in rows}
        self.assertLessEqual(
            {"spctune, generic", "spctune, rowgemm", "explicit, torch"}, engines
        )

    def test_absent_engines_are_named(self):
        path = f"{self.folder.name}/spira_layers.csv"
        with open(path, encoding="utf-8") as file:
            self.assertIn("# FlexGEMM is absent: ", file.read())


class Checks(unittest.TestCase):
    """Each planted fault has no row, and a note."""

    def setUp(self):
        self.bench = bench()
        torch.manual_seed(0)
        self.want = torch.randn(64, 8, dtype=torch.float64)

    def compare(self, call, far=0.05):
        entry = Entry(
            "x", call, lambda y: reference.distance(y, self.want), far
        )
        self.bench.compare("scene", 64, "layer", [entry])
        return self.bench.rows, "\n".join(self.bench.notes)

    def test_a_right_result_has_a_time(self):
        rows, notes = self.compare(lambda: self.want.half())
        self.assertEqual([r["engine"] for r in rows], ["x"])
        self.assertEqual(rows[0]["what"], "wall")

    def test_a_lost_pair_is_found(self):
        def call():
            y = self.want.half()
            y[5] *= 0.8
            return y

        rows, notes = self.compare(call)
        self.assertEqual(rows, [])
        self.assertIn("wrong", notes)

    def test_a_result_that_is_kept_is_found(self):
        kept = self.want.half()
        rows, notes = self.compare(lambda: kept)
        self.assertEqual(rows, [])
        self.assertIn("inf off", notes)

    def test_a_result_that_turns_wrong_is_found(self):
        calls = []

        def call():
            calls.append(0)
            return (self.want if len(calls) < 6 else 2 * self.want).half()

        rows, notes = self.compare(call)
        self.assertEqual(rows, [])
        self.assertIn("after timing", notes)

    def test_other_voxels_are_found(self):
        scene = self.bench.scene("shell 256")
        layer = reference.Layer(4, 4, 2, 2, dtype="f32", kind="conv")
        work = harness.LayerWork(self.bench, scene, layer, None)
        engine = self.bench.engines["spctune"]
        built = engine.layer(layer, work.map, work.weight)
        built.outputs = lambda: work.map.outputs + 1
        fake = types.SimpleNamespace(layer=lambda *_: built)
        with self.assertRaisesRegex(ValueError, "are not the"):
            work.build(fake)

    def test_wrong_gradients_are_found(self):
        layer = reference.Layer(4, 4, dtype="f32")
        scene = self.bench.scene("shell 256")
        work = harness.LayerWork(self.bench, scene, layer, None)
        built = work.build(self.bench.engines["spctune"])
        entry = work.entry("spctune", built, "step")
        y, dx, dw = entry.call()
        self.assertLess(entry.off((y, dx, dw)), 1e-3)
        self.assertGreater(entry.off((y, dx.flip(0), dw)), 0.1)
        self.assertGreater(entry.off((y, dx, dw.flip(1))), 0.1)

    def test_kernels_are_summed_by_call(self):
        def mark(at):
            return ("void at::cuda::spin_kernel(long)", at, 1.0)

        events = [
            ("k", 5, 2.0),
            mark(0),
            ("k", 2, 3.0),
            mark(10),
            ("k", 12, 7.0),
        ]
        events += [mark(20), ("k", 21, 4.0), mark(30), ("k", 31, 8.0)]
        found = harness.split(events, ["a", "b"])
        self.assertEqual(found, {"a": [5.0, 4.0], "b": [7.0, 8.0]})
        self.assertIsNone(harness.split([("k", 0, 1.0)], ["a"]))
        self.assertIsNone(harness.split(events[:4], ["a", "b", "c"]))


class Profile:
    """A profiler that saw a marker and one kernel of 3 us in each call."""

    def __init__(self, **_):
        self.calls = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def sleep(self, _):
        self.calls += 1

    def events(self):
        kind = torch.autograd.DeviceType.CUDA

        def event(name, at, us):
            time = types.SimpleNamespace(start=at, elapsed_us=lambda: us)
            return types.SimpleNamespace(
                name=name,
                time_range=time,
                device_type=kind,
                is_user_annotation=False,
            )

        for i in range(self.calls):
            yield event("at::cuda::spin_kernel(long)", 10 * i, 1.0)
            yield event("conv", 10 * i + 2, 3.0)


class Gpu(unittest.TestCase):
    """The parts that only a GPU runs, with a stand-in for CUDA."""

    def test_rows_of_a_gpu(self):
        made, profile = bench(), Profile()
        made.gpu = True
        memory = iter(range(0, 10**9, 2**20))
        fakes = {
            "synchronize": lambda: None,
            "reset_peak_memory_stats": lambda: None,
            "memory_allocated": lambda: next(memory),
            "max_memory_allocated": lambda: next(memory),
            "_sleep": profile.sleep,
        }
        cuda = unittest.mock.patch.multiple(torch.cuda, **fakes)
        seen = unittest.mock.patch(
            "torch.profiler.profile", lambda **_: profile
        )
        layer = reference.Layer(4, 8, dtype="f32")
        with cuda, seen:
            made.layer(
                made.scene("shell 256"), layer, ("forward", "step", "peak")
            )
        found = {(r["pass"], r["what"]): r["value"] for r in made.rows}
        self.assertEqual(found["forward", "kernels"], "3")
        self.assertIn(("forward", "wall"), found)
        self.assertIn(("step", "kernels"), found)
        self.assertGreater(float(found["step", "peak"]), 0)
        self.assertEqual(made.notes, [])


class Adapters(unittest.TestCase):
    """Each adapter computes the definition's layer with a stand-in for its
    engine."""

    def setUp(self):
        self.bench = bench()
        coords = self.bench.scene("waymo@0.1").coords[::3]
        self.scene = harness.Scene("a third of a sweep", "", coords)

    def engine(self, name):
        module = importlib.import_module("peers." + peers.NAMES[name])
        with (
            engines.Installed(name),
            unittest.mock.patch.object(module, "need_gpu"),
            unittest.mock.patch("importlib.metadata.version", return_value="0"),
        ):
            return module.Engine("cpu")

    def compare(self, name, layer, definition=None, trains=True):
        engine = self.engine(name)
        work = harness.LayerWork(self.bench, self.scene, layer, definition)
        with engines.Installed(name):
            built = work.build(engine)
            for which in ("forward", "with map", *(["step"] if trains else [])):
                entry = work.entry(name, built, which)
                off = entry.off(entry.call())
                far = reference.FAR[layer.dtype]
                self.assertLess(off, far, (name, layer, which))

    def layers(self, *kinds, groups=(1,), dtype="f32"):
        for kind, k, stride in kinds:
            for g in groups:
                yield reference.Layer(4, 8, k, stride, g, dtype, kind)

    def test_flexgemm(self):
        for layer in self.layers(("subm", 3, 1)):
            self.compare("FlexGEMM", layer)
        with self.assertRaises(peers.Unsupported):
            self.compare("FlexGEMM", reference.Layer(4, 8, 5, dtype="f32"))

    def test_torchsparse(self):
        for layer in self.layers(
            ("subm", 3, 1), ("subm", 5, 1), ("conv", 2, 2)
        ):
            self.compare("TorchSparse++", layer)

    def test_warpconvnet(self):
        kinds = (("subm", 3, 1), ("conv", 2, 2), ("conv", 3, 2))
        for layer in self.layers(*kinds, groups=(1, 2)):
            self.compare("WarpConvNet", layer)
        kinds = (("generative", 3, 1), ("generative", 2, 2), ("expand", 3, 2))
        for layer in self.layers(*kinds):
            self.compare("WarpConvNet", layer)
        coords = self.scene.coords.clone()
        coords[:, 3] = 0
        self.scene = harness.Scene("a plane", "", reference.unique(coords))
        self.compare(
            "WarpConvNet", reference.Layer(4, 8, 3, dtype="f32", axes=2)
        )

    def test_spira(self):
        for layer in self.layers(
            ("subm", 3, 1), ("subm", 5, 1), ("conv", 3, 2), dtype="f16"
        ):
            self.compare("Spira", layer, trains=False)

    def test_pointelligence(self):
        points = torch.rand(200, 3)
        layer = reference.Layer(4, 8, dtype="f32", kind="points")
        found = reference.PointDefinition(layer, points, 0.3)
        self.scene = harness.Scene("points", "", points)
        self.compare("pointelligence", layer, found)

    def test_networks_of_torchsparse(self):
        kit = self.engine("TorchSparse++").kit()
        coords = self.scene.coords.clone()
        coords[:, 1:] -= coords[:, 1:].amin(0)
        shape = [(n // 16 + 1) * 16 for n in coords.amax(0).tolist()[1:]]
        x = torch.randn(len(coords), 4)
        model = networks.Net(reference.Kit(), networks.unet42, 4).double()
        net = networks.Net(kit, networks.unet42, 4)
        net.load(model)
        for norm in [*model.norms, *net.norms]:
            norm.momentum = None
        with torch.no_grad():
            want, voxels = model.train()(x.double(), coords, shape, 1)
            found, made = net.train()(x, coords, shape, 1)
        order = reference.permuted(made, voxels)
        self.assertLess(reference.distance(found[order], want), 1e-2)


class Pages(unittest.TestCase):
    def test_scripts_and_shares_agree(self):
        self.assertEqual(set(driver.SHARES), set(papers.scripts()))
        self.assertEqual(set(papers.TITLES), set(papers.scripts()))
        for name in papers.scripts():
            self.assertTrue(os.path.exists(f"{FOLDER}/{name}.py"), name)

    def test_a_gain_is_the_best_other_engine_over_ours(self):
        columns = dict.fromkeys(papers.COLUMNS, "")
        rows = [
            {**columns, "engine": e, "what": w, "unit": "us", "value": str(v)}
            for e, w, v in (
                ("spctune", "kernels", 10),
                ("spconv", "kernels", 30),
                ("FlexGEMM", "kernels", 25),
                ("spctune", "wall", 100),
                ("spconv", "wall", 1),
            )
        ]
        self.assertEqual(papers.gains(rows), [2.5])
        ours, others, gain = papers.summary(rows)
        self.assertEqual(ours, "10 us")
        self.assertEqual(others, "25 to 30 us (FlexGEMM, spconv)")
        self.assertEqual(gain, "2.50 times")

    def test_a_changed_result_makes_the_page_stale(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.csv")
            row = dict.fromkeys(papers.COLUMNS, "")
            row.update(engine="spctune", value="3", unit="us")
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write("# a note\n")
                writer = csv.DictWriter(file, papers.COLUMNS)
                writer.writeheader()
                writer.writerow(row)
            self.assertEqual(len(papers.read(path)), 1)
            self.assertIn("<svg", papers.picture("x", papers.read(path)))
            with open(path, "w", encoding="utf-8") as file:
                file.write("engine,value\nspctune,3\n")
            with self.assertRaises(SystemExit):
                papers.read(path)

    def test_no_engine_of_another_name(self):
        with self.assertRaises(SystemExit):
            peers.load(["spconf"], "cpu")


if __name__ == "__main__":
    unittest.main()
