#!/usr/bin/env bash
# The side-by-side with JAX, NumPy and hand-written C++, and with the libraries that PEERS names, into
# docs/performance.md (another page with --out; a page stays as it is if it has rows which the run has not).
#   [PEERS="mlx drjit torch torch-compile"] scripts/bench_jax.sh [options of bench/compare.py]
# The row B00.static_size, where it is asked for, is of the preset `static`, which is built before.
# The libraries come from PyPI into a virtual environment outside the tree: ${XDG_CACHE_HOME:-~/.cache}/telamon/peers.
set -eu
cd "$(dirname "$0")/.."

peers=${XDG_CACHE_HOME:-$HOME/.cache}/telamon/peers
packages=(jax numpy)
names=jax,hand,numpy
for peer in ${PEERS:-}; do
  case $peer in
    mlx) packages+=('mlx[cpu]') ;;
    drjit | torch) packages+=("$peer") ;;
    torch-compile) packages+=(torch) ;;  # needs a C++ compiler, and an hour more
    jax | hand | numpy) continue ;;
    *) echo "$0: no such peer: $peer (mlx, drjit, torch, torch-compile)" >&2; exit 2 ;;
  esac
  names+=,$peer
done
only=$(printf '%s\n' "$@" | sed -n '/^--only$/{n;p};s/^--only=//p' | tail -n 1)
if [[ B00.static_size =~ ${only:-.} ]]; then
  mkdir -p build
  cmake --preset static > build/static.log 2>&1 || { cat build/static.log >&2; exit 1; }
  cmake --build --preset static --target telamon_command -j "$(nproc)"
fi
[ -x "$peers/bin/python" ] || python3 -m venv "$peers"
"$peers/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
exec "$peers/bin/python" bench/compare.py --threads 1,2 --peers "$names" --out docs/performance.md "$@"
