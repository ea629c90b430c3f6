#!/usr/bin/env bash
# public_headers.sh COMPILER INCLUDE_DIR: every public header compiles by itself, none brings in
# <iostream>, <ranges>, <regex> or a header of another project, the umbrella header stays below a bound of
# preprocessed lines (most of them the standard library's), and it gives no warning to users who ask for more than we do.
set -u
compiler=$1
include=$2
max_lines=95000
status=0
fail() { echo "$*"; status=1; }
preprocess() { "$compiler" -std=c++20 -I"$include" -x c++ "$@"; }

for header in "$include"/telamon/*.hpp; do
  name=telamon/${header##*/}
  preprocess -fsyntax-only - <<< "#include \"$name\"" || fail "$name does not compile by itself"
  head -n 1 "$header" | grep -q '^// ' || fail "$name: its first line must say what it is for"
  grep -q '^#pragma once' "$header" || fail "$name: no #pragma once"
done

# Headers come from the project, the compiler's standard library, or the C library (linux-gnu).
all=$(cat "$include"/telamon/*.hpp | grep -E '^#include' | sort -u)
files=$(preprocess -M - <<< "$all" | tr ' \\' '\n\n' | grep -E '^/|^\.')
banned=$(grep -E '/(iostream|ranges|regex)$' <<< "$files")
[ -z "$banned" ] || fail "a public header brings in: $banned"
strangers=$(grep -vE "^$include/telamon/|/c\+\+/|/include/c\+\+|/gcc/|/clang/|/llvm-[0-9]+/lib/clang/|linux-gnu/|^/usr/include/(linux|asm-generic|bits|sys)?/?[a-z_0-9-]+\.h$" <<< "$files")
[ -z "$strangers" ] || fail "a public header includes third-party headers: $strangers"

preprocess -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast \
  -Wnon-virtual-dtor -Woverloaded-virtual -Werror - <<< '#include "telamon/telamon.hpp"' \
  || fail "telamon.hpp warns"

lines=$(preprocess -E - <<< '#include "telamon/telamon.hpp"' | wc -l)
[ "$lines" -le $max_lines ] || fail "telamon.hpp is $lines preprocessed lines, more than $max_lines"
echo "telamon.hpp: $lines preprocessed lines"
exit $status
