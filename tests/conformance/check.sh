#!/usr/bin/env bash
# Runs `telamon check` on the full set of conformance cases, which lies beside the project
# (../shared/conformance/cases) or where TELAMON_CONFORMANCE says. Without it, skips and says so.
#   check.sh TELAMON_COMMAND SOURCE_DIR
#   check.sh --where SOURCE_DIR     only says if they are missing
set -u
cases=${TELAMON_CONFORMANCE:-$2/../shared/conformance/cases}
if ! compgen -G "$cases/*.jsonl" > /dev/null; then
  echo "SKIPPED: no conformance cases in '$cases'. The full set comes with the project's shared data: put"
  echo "it there or set TELAMON_CONFORMANCE to its folder. tests/conformance/selection.jsonl.gz was checked."
  [ "$1" = --where ] && exit 0
  exit 77
fi
[ "$1" = --where ] && exit 0
exec "$1" check "$cases"/*.jsonl
