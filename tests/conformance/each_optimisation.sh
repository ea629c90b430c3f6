#!/usr/bin/env bash
# All conformance cases, compiled with each optimisation alone left out: the full set where check.sh finds it,
# else the selection. A process for each optimisation, one for each processor at a time; nothing is kept on disk, since
# no two of them have a program in common.
# In the modes that do not jit, too: there loops and inner jits are compiled, as programs of their own and with what their
# derivatives make of them, which are more programs than in the other modes.
#   each_optimisation.sh TELAMON_COMMAND SOURCE_DIR
set -u
telamon=$1
cases=("${TELAMON_CONFORMANCE:-$2/../shared/conformance/cases}"/*.jsonl)
[ -f "${cases[0]}" ] || cases=("$2/tests/conformance/selection.jsonl.gz")
read -ra optimisations <<< "$("$telamon" info | sed -n 's/^optimisations: //p')"
[ ${#optimisations[@]} -gt 0 ] || { echo "$0: 'telamon info' names no optimisation"; exit 1; }

said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
# check_without NAME: what it says goes into a file of this name, beside another where all passed
check_without='
  TELAMON_CACHE_DIR=none TELAMON_DISABLE=$3 "$2" check "${@:4}" > "$1/$3" 2>&1 && touch "$1/$3.passed"'
printf '%s\n' "${optimisations[@]}" |
  xargs -P "$(nproc)" -I NAME bash -c "$check_without" bash "$said" "$telamon" NAME "${cases[@]}"

# All but the corrections of golden values, which are the same each time. What was skipped, and why, is for CTest to
# judge, as after the other runs of `telamon check`.
failed=0
for left_out in "${optimisations[@]}"; do
  echo "without $left_out:"
  grep -v '^golden corrected: ' "$said/$left_out"
  [ -f "$said/$left_out.passed" ] || failed=1
done
exit $failed
