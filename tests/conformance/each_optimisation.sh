#!/usr/bin/env bash
# All conformance cases, compiled with each optimisation alone left out: the full set where check.sh finds it,
# else the selection.
#   each_optimisation.sh TELAMON_COMMAND SOURCE_DIR
set -u
telamon=$1
cases=("${TELAMON_CONFORMANCE:-$2/../shared/conformance/cases}"/*.jsonl)
[ -f "${cases[0]}" ] || cases=("$2/tests/conformance/selection.jsonl.gz")
read -ra optimisations <<< "$("$telamon" info | sed -n 's/^optimisations: //p')"
[ ${#optimisations[@]} -gt 0 ] || { echo "$0: 'telamon info' names no optimisation"; exit 1; }

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
for left_out in "${optimisations[@]}"; do
  TELAMON_DISABLE=$left_out "$telamon" check --modes "jit,jit(jvp),jit(vjp),jit(hvp),jit(vmap)" "${cases[@]}" \
    > "$output" 2>&1 || { cat "$output"; failed=1; }
  echo "without $left_out:"
  tail -n 1 "$output"
done
exit $failed
