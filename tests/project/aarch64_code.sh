#!/usr/bin/env bash
# aarch64_code.sh COMMAND LLC: what is generated for vectors of 16 bytes becomes NEON code, too. Nothing is
# run: scripts/cross_aarch64.sh builds and runs all of it, and this notices early what that would trip over.
set -euo pipefail
command=$1
llc=$2
[ -x "$llc" ] || { echo "no llc of LLVM 19 here: code for AArch64 is not looked at"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() {  # what the assembly must hold, and the program's equations and results
  printf '{ lambda a:f32[1000,512], b:f32[1000,512] .\n%s }' "$2" > "$work/p.jaxpr"
  TELAMON_ISA=generic "$command" show "$work/p.jaxpr" --ir > "$work/p.ll"
  "$llc" -mtriple=aarch64-linux-gnu -o "$work/p.s" "$work/p.ll"
  grep -qE "$1" "$work/p.s" && return
  echo "no $1 in the code of:" "$2"
  failed=1
}
expect 'fmul\s+v[0-9]+\.4s' 'let c:f32[1000,512] = mul a b in ( c )'
expect 'bl\s+telamon_generic_exp_f32' 'let c:f32[1000,512] = exp a in ( c )'
expect 'fadd\s+v[0-9]+\.4s' 'let c:f32[1000] = reduce_sum [ axes=(1,) ] a in ( c )'
expect 'v[0-9]+\.4s' 'let c:f32[512] = reduce_max [ axes=(0,) ] a in ( c )'
expect 'v[0-9]+\.4s' 'let c:f32[512,1000] = transpose [ permutation=(1, 0) ] a in ( c )'
exit $failed
