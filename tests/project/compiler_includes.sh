#!/usr/bin/env bash
# The folders of src/compiler include what their READMEs say that they may, and LLVM is where src/compiler/README.md says.
set -eu
cd "$(dirname "$0")/../../src/compiler"
status=0
complain() { echo "$1"; status=1; }
for readme in */README.md; do
  folder=${readme%/*}
  words=$(sed -n '/^May include/,$p' "$readme" | grep -oE '`[^`]+`' | tr -d '`' || true)
  while IFS=: read -r file included; do
    case $included in
      telamon/* | "compiler/$folder/"*) continue ;;
      compiler/*/*) names="$(cut -d/ -f2 <<< "$included") ${included#compiler/}" ;;
      compiler/*) stem=${included#compiler/}; names="${stem%.hpp} $stem" ;;
      */*) names=${included%%/*} ;;
      *) continue ;;
    esac
    for name in $names; do grep -qxF "$name" <<< "$words" && continue 2; done
    complain "$file includes $included, which $folder/README.md does not say"
  done < <(grep -oE '^#include "[^"]+"' "$folder"/*.?pp | sed -E 's/#include "([^"]+)"/\1/')
done
for file in $(grep -lE '^#include <llvm' -r . --include='*.?pp'); do
  case $file in
    ./codegen/codegen.hpp | ./codegen/llvm_session.hpp | ./codegen/native_linker.hpp) complain "$file includes LLVM" ;;
    ./codegen/* | ./executable/program_key.cpp) ;;
    *) complain "$file includes LLVM" ;;
  esac
done
exit $status
