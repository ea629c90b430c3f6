#!/usr/bin/env bash
# exported_symbols.sh LIBRARY: it exports names of telamon::v1, with their type information, C entry
# points telamon_*, and the two names by which debuggers learn of generated code; nothing else. Of an
# archive these are all names that programs may not define, and LLVM's are in telamon_llvm.
set -euo pipefail
library=$1
v1='^_Z(T[VTISHW]|GV|Thn?[0-9]+_|Tv0_n[0-9]+_)?N[KVRO]*7telamon2v1'
if [[ $library == *.a ]]; then
  v1="7telamon2v1|12telamon_llvm"
  # An inline function is shared by all who define it (W, V, u), but for LLVM's own.
  symbols=$(nm -g --defined-only "$library" 2> /dev/null | awk 'NF == 3 && ($2 !~ /[WVu]/ || $3 ~ /N[KVRO]*4llvm/) { print $3 }')
else
  symbols=$(nm -D --defined-only "$library" | awk '{ print $NF }')
fi
count=$(wc -l <<< "$symbols")
[ "$count" -ge 10 ] || { echo "only $count exported symbols: is this the library?"; exit 1; }
strangers=$(grep -vE "$v1|^telamon_|^__jit_debug_(descriptor|register_code)\$" <<< "$symbols" | c++filt || true)
if [ -n "$strangers" ]; then
  echo "exported, but neither in telamon::v1 nor a C entry point telamon_*:"
  echo "$strangers"
  exit 1
fi
echo "$count exported symbols"
