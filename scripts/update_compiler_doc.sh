#!/usr/bin/env bash
# Takes over what the compiler prints now: examples/compiler_walk.expected becomes the output of the
# program (its path is the argument), and each block of docs/compiler.md its part of that.
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/release/bin/compiler_walk}
expected=examples/compiler_walk.expected
"$program" > $expected.new || { rm -f $expected.new; exit 1; }
mv $expected.new $expected
awk '
  FNR == 1 { part = "" }
  FNR == NR {
    if ($1 == "==") part = $2
    else text[part] = text[part] $0 "\n"
    next
  }
  /^<!-- part / { part = $3 }
  /^```/ && part != "" {
    if (!inside) { print; printf "%s", text[part]; inside = 1 }
    else { print; inside = 0; part = "" }
    next
  }
  !inside
' $expected docs/compiler.md > docs/compiler.md.new
mv docs/compiler.md.new docs/compiler.md
