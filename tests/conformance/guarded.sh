#!/usr/bin/env bash
# All conformance cases, with arrays that end, and again ones that begin, at a page which nobody may touch, for each
# instruction set, as far as the processor has it: the full set where check.sh finds it, else the selection.
#   guarded.sh TELAMON_COMMAND SOURCE_DIR     a command that was built with TELAMON_GUARD_PAGES
set -u
cases=("${TELAMON_CONFORMANCE:-$2/../shared/conformance/cases}"/*.jsonl)
[ -f "${cases[0]}" ] || cases=("$2/tests/conformance/selection.jsonl.gz")
"$1" info | grep -q 'arrays guarded' || { echo "$0: $1 was not built with TELAMON_GUARD_PAGES"; exit 1; }

failed=0
for side in before behind; do
  for isa in generic avx2 avx512; do
    echo "$side, $isa:"
    TELAMON_CACHE_DIR=none TELAMON_GUARD=$side TELAMON_ISA=$isa "$1" check --modes \
      "jit,jit(jvp),jit(vjp),jit(hvp),jit(vmap)" "${cases[@]}" || { echo "FAILED with status $?"; failed=1; }
  done
done
exit $failed
