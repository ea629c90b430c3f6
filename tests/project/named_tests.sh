#!/usr/bin/env bash
# Every test that tests/README.md names exists.
set -eu
cd "$(dirname "$0")/../.."
missing=0
names=$(grep -oE '`[A-Z][A-Za-z0-9]*\.[A-Z][A-Za-z0-9_]*`' tests/README.md | tr -d '`' | sort -u)
[ -n "$names" ] || { echo "tests/README.md names no test"; exit 1; }
for name in $names; do
  pattern="^TEST(_F|_P)?\\(${name%%.*}, ${name#*.}\\)"
  grep -rqE "$pattern" tests --include='*.cpp' || { echo "no such test: $name"; missing=1; }
done
exit $missing
