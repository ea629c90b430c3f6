#!/usr/bin/env bash
# docs/concepts.md has a row for every term of the vocabulary, and each file and name in it exists.
set -u
cd "$(dirname "$0")/../.."
vocabulary='primitive|bind|rule|trace|tracer|interpreter stack|main trace|level|full_raise|full_lower
dynamic trace (omnistaging)|aval|ShapedArray|weak type|pytree|leaf|treedef|jaxpr|equation (eqn)|binder|atom|literal
var|consts|primal|tangent|cotangent|symbolic zero|residual|linearize|partial evaluation|known/unknown|transpose
UndefPrimal|batching|batch axis|initial-style|final-style|lowering|fusion|live range|arena|executable|donation'
failed=0
complain() { echo "docs/concepts.md: $1"; failed=1; }

rows=0
seen='|'
while IFS='|' read -r _ term file names _; do
  term=$(echo "$term" | sed 's/^ *//; s/ *$//')
  file=$(echo "$file" | sed -n 's/.*\[\(.*\)\](.*/\1/p')
  [ -n "$file" ] || continue
  rows=$((rows + 1))
  seen="$seen$term|"
  [ -f "$file" ] || { complain "$term: no file $file"; continue; }
  for name in $(echo "$names" | tr -d '`'); do
    grep -qw -- "$name" "$file" || complain "$term: no '$name' in $file"
  done
done < <(grep '^| ' docs/concepts.md)

while IFS= read -r term; do
  case $seen in *"|$term|"*) ;; *) complain "no row for '$term'" ;; esac
done < <(echo "$vocabulary" | tr '|' '\n')
[ "$rows" -gt 0 ] || complain "there are no rows"
exit $failed
