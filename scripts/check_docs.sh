#!/usr/bin/env bash
# Every relative link of a Markdown file of the project leads to a file that exists (code aside).
set -u
cd "$(dirname "$0")/.."
broken=0
while IFS= read -r file; do
  while IFS= read -r target; do
    target=${target%%#*}
    [ -n "$target" ] || continue
    [ -e "${file%/*}/$target" ] || { echo "$file: no such file: $target"; broken=1; }
  done < <(awk '/^ *```/ { code = !code; next } !code' "$file" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//' | grep -vE '^(https?|mailto):')
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*')
exit $broken
