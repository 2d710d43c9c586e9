# SPDX-License-Identifier: Apache-2.0
"""Compares layers in JAX with their definition, on the cpu device."""

import gc
import itertools
import threading
import unittest

try:
    import jax
except ImportError:
    raise unittest.SkipTest("JAX is not installed") from None

import jax.numpy as jnp
import numpy as np
from support import dense_conv, scene

import spctune
import spctune.jax as sj

DOWN = "conv,k=2,stride=2,rule=floor"


class Case(unittest.TestCase):
    def setUp(self):
        self.coords = scene(300, 10, batches=2)
        self.rng = np.random.default_rng(0)

    def draw(self, *shape, dtype=jnp.float32):
        return jnp.asarray(self.rng.standard_normal(shape), dtype)

    def close(self, got, want, limit=1e-5):
        want = np.asarray(want, np.float64)
        self.assertEqual(got.shape, want.shape)
        off = np.abs(np.asarray(got, np.float64) - want).max()
        self.assertLess(off, limit * np.abs(want).max())


class Layers(Case):
    def test_results_are_those_of_the_definition(self):
        x, w = self.draw(len(self.coords), 8), self.draw(16, 3, 3, 3, 8)
        m = sj.make_map(self.coords, "subm,k=3")
        bias = self.draw(16)
        y = sj.conv(x, w, m, bias)
        args = (np.asarray(x), self.coords, np.asarray(w))
        want = dense_conv(*args, self.coords, 1, -1) + np.asarray(bias)
        self.close(y, want)
        self.close(jax.jit(lambda x, w: sj.conv(x, w, m, bias))(x, w), want)

        down, v = sj.make_map(self.coords, DOWN), self.draw(16, 2, 2, 2, 8)
        to = np.asarray(down.coords())
        self.assertEqual(
            to.tolist(),
            np.unique(self.coords // [1, 2, 2, 2], axis=0).tolist(),
        )
        z = sj.conv(x, v, down)
        self.close(
            z, dense_conv(np.asarray(x), self.coords, np.asarray(v), to, 2, 0)
        )

    def test_gradients_are_the_derivatives(self):
        """The layer is linear in features and weights, so its gradients are its
        transposes."""
        down = sj.make_map(self.coords, DOWN)
        for m, kernel, cin, cout in (
            (sj.make_map(self.coords, "subm,k=3"), 3, 8, 16),
            (down, 2, 8, 16),
            (sj.inverse_map(down), 2, 16, 8),
        ):
            with self.subTest(m.words):
                x, w = (
                    self.draw(m.rows_in, cin),
                    self.draw(cout, *[kernel] * 3, cin),
                )
                g = self.draw(m.rows_out, cout)

                def loss(x, w, m=m, g=g):
                    return (sj.conv(x, w, m) * g).sum()

                for run in (jax.grad, lambda *a: jax.jit(jax.grad(*a))):
                    dx, dw = run(loss, (0, 1))(x, w)
                    for of, grad in ((0, dx), (1, dw)):
                        step = self.draw(*grad.shape)
                        moved = [x, w]
                        moved[of] = step
                        want = float(loss(*moved))
                        got = float((grad * step).sum())
                        self.assertLess(
                            abs(got - want), 1e-3 * abs(want) + 1e-2
                        )

    def test_every_gradient_by_the_definition(self):
        coords = self.coords[:40]
        m = sj.make_map(coords, "subm,k=3")
        x, w, g = self.draw(40, 4), self.draw(4, 3, 3, 3, 4), self.draw(40, 4)
        dx, dw = jax.vjp(lambda x, w: sj.conv(x, w, m), x, w)[1](g)
        index = {tuple(c): i for i, c in enumerate(coords.tolist())}
        want_x, want_w = np.zeros(x.shape), np.zeros(w.shape)
        wd, xd, gd = (np.asarray(v, np.float64) for v in (w, x, g))
        for o, (b, *c) in enumerate(coords.tolist()):
            for p in itertools.product(range(3), repeat=3):
                i = index.get((b, *(a + q - 1 for a, q in zip(c, p))))
                if i is not None:
                    want_x[i] += gd[o] @ wd[(slice(None), *p)]
                    want_w[(slice(None), *p)] += np.outer(gd[o], xd[i])
        self.close(dx, want_x)
        self.close(dw, want_w)

    def test_half_types(self):
        m = sj.make_map(self.coords, "subm,k=3")
        x, w = self.draw(len(self.coords), 8), self.draw(8, 3, 3, 3, 8)
        want = sj.conv(x, w, m)
        for dtype, limit in ((jnp.float16, 1e-2), (jnp.bfloat16, 5e-2)):
            y = sj.conv(x.astype(dtype), w.astype(dtype), m)
            self.assertEqual(y.dtype, dtype)
            self.close(y, want, limit)
            dw = jax.grad(
                lambda w, x=x, d=dtype: sj.conv(x.astype(d), w, m).sum()
            )(w.astype(dtype))
            self.assertEqual(dw.dtype, dtype)

    def test_a_step_of_training_in_one_program(self):
        m = sj.make_map(self.coords, "subm,k=3")
        x, want = self.draw(len(self.coords), 8), self.draw(len(self.coords), 4)
        params = [
            self.draw(8, 3, 3, 3, 8) * 0.05,
            self.draw(4, 3, 3, 3, 8) * 0.05,
        ]

        @jax.jit
        def step(params):
            def loss(params):
                y = jax.nn.relu(sj.conv(x, params[0], m))
                return ((sj.conv(y, params[1], m) - want) ** 2).mean()

            value, grads = jax.value_and_grad(loss)(params)
            return value, [p - 2 * g for p, g in zip(params, grads)]

        losses = []
        for _ in range(100):
            value, params = step(params)
            losses.append(float(value))
        self.assertLess(losses[-1], 0.5 * losses[0])


class Lives(Case):
    def test_a_program_outlives_its_map_with_an_error(self):
        m = sj.make_map(self.coords, "subm,k=3")
        x, w = self.draw(len(self.coords), 8), self.draw(8, 3, 3, 3, 8)
        layer = jax.jit(lambda x, w, m: sj.conv(x, w, m), static_argnums=2)
        program = layer.lower(x, w, m).compile()
        want = sj.conv(x, w, m)
        self.assertTrue(jnp.array_equal(program(x, w), want))
        del m
        jax.clear_caches()
        gc.collect()
        with self.assertRaisesRegex(Exception, "kernel map of this layer has"):
            program(x, w).block_until_ready()

    def test_threads_run_programs_on_one_map(self):
        m = sj.make_map(self.coords, "subm,k=3")
        w = self.draw(8, 3, 3, 3, 8)
        inputs = [self.draw(len(self.coords), 8) for _ in range(4)]
        layer = jax.jit(lambda x: sj.conv(x, w, m))
        want = [np.asarray(layer(x)) for x in inputs]
        wrong = []

        def work(i):
            for _ in range(50):
                if not np.array_equal(np.asarray(layer(inputs[i])), want[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_no_voxels(self):
        m = sj.make_map(np.zeros((0, 4), np.int32), "subm,k=3")
        w = self.draw(8, 3, 3, 3, 8)
        self.assertEqual(sj.conv(self.draw(0, 8), w, m).shape, (0, 8))

    def test_mistakes_are_named(self):
        m = sj.make_map(self.coords, "subm,k=3")
        rows = len(self.coords)
        x, w = self.draw(rows, 8), self.draw(8, 3, 3, 3, 8)
        twice = np.concatenate([self.coords, self.coords[:1]])
        cases = (
            (lambda: sj.make_map(self.coords, "subm,colour=1"), "'colour'"),
            (lambda: sj.make_map(twice, "subm,k=3"), "same coordinate"),
            (lambda: sj.make_map(self.coords[:, 1:], "subm"), r"\[rows, 4\]"),
            (lambda: sj.conv(x[:-1], w, m), rf"it is \[{rows}, 8\]"),
            (lambda: sj.conv(x, w.astype(jnp.float16), m), "weight float16"),
            (lambda: sj.conv(x, w[0], m), "it is \\[cout"),
            (m.coords, "voxels that the caller has"),
            (
                lambda: jax.vmap(lambda x: sj.conv(x, w, m))(x[None]),
                "vmap over a sparse layer",
            ),
            (
                lambda: jax.vmap(jax.grad(lambda x: sj.conv(x, w, m).sum()))(
                    x[None]
                ),
                "vmap over a sparse layer",
            ),
            (
                lambda: jax.jit(lambda c: sj.make_map(c, "subm,k=3").rows_in)(
                    self.coords
                ),
                "outside of jit",
            ),
        )
        for call, sentence in cases:
            with (
                self.subTest(sentence),
                self.assertRaisesRegex(spctune.Error, sentence),
            ):
                call()

    def test_second_derivatives_are_refused(self):
        m = sj.make_map(self.coords, "subm,k=3")
        x, w = self.draw(len(self.coords), 8), self.draw(8, 3, 3, 3, 8)
        slope = jax.grad(lambda x: (sj.conv(x, w, m) ** 2).sum())
        with self.assertRaisesRegex(Exception, "differentiat|custom_vmap"):
            jax.grad(lambda x: (slope(x) ** 2).sum())(x)


if __name__ == "__main__":
    unittest.main()
