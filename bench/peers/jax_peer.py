#!/usr/bin/env python3
"""JAX in the side-by-side: see harness.py for what this program does.

Dispatch is not asynchronous: results are there when a call returns. Workloads of x64=True run in 64 bits, the others
in 32.
The workloads, with their ids, are in
    jax_arrays.py    B01 calls, B02 elementwise, B03 reductions, SWEEP, B04 products, B05 PEG B06 B07 networks,
                     B13 gather and scatter, B14 sorting
    jax_models.py    B08 loops, B09 ODEs, B10 N-body, B11 Monte Carlo, B12 second order, B15 Gaussian process,
                     GMM, KMEANS, B17 small and deep
    jax_compile.py   B00 start, B16 compilation
    jax_memory.py    MEM
and their inputs in inputs.py.
"""
import harness

if __name__ == "__main__":
    OPTIONS = harness.read_options()
    harness.limit_threads(OPTIONS.threads)  # before JAX is imported

import jax
import jax_arrays  # noqa: F401  registers its workloads, as do the next three
import jax_compile  # noqa: F401
import jax_memory  # noqa: F401
import jax_models  # noqa: F401
from jax_common import arrays


def begin(options):
    jax.config.update("jax_enable_x64", options.get("x64", False))


if __name__ == "__main__":
    harness.Server(f"jax {jax.__version__}", arrays, begin, jax.clear_caches).run(OPTIONS)
