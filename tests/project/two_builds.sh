#!/usr/bin/env bash
# two_builds.sh COMMAND LIBRARY ID_SOURCE: two builds of the library, in processes of their own, share a
# folder of the disk cache. The other build is a copy of the library with another build id, which is all
# that tells two builds apart. Each compiles for itself once, then finds its own program.
set -euo pipefail
command=$1
library=$2
id=$(grep -oE '"[0-9a-f]{64}"' "$3" | tr -d '"')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/ours" "$work/other"
cp "$library" "$work/ours/"
other=$(tr '0-9a-f' '1-9a-f0' <<< "$id")
LC_ALL=C sed "s/$id/$other/g" "$library" > "$work/other/$(basename "$library")"
if cmp -s "$library" "$work/other/$(basename "$library")"; then
  echo "the library does not hold the build id $id"
  exit 1
fi
# `bench` compiles as any program that calls jit does.
printf '{ lambda a:f64[8] . let b:f64[8] = sin a\n c:f64[8] = mul b a in ( c ) }' > "$work/p.jaxpr"
failed=0
expect() {  # folder of the library, what the log of the cache says, files in the end
  local log files
  log=$(LD_LIBRARY_PATH="$work/$1" TELAMON_CACHE_DIR="$work/cache" TELAMON_LOG=cache \
    "$command" bench "$work/p.jaxpr" 2>&1) || { echo "$log"; exit 1; }
  files=$(find "$work/cache" -name '*.tlc' | wc -l)
  if ! grep -qE " $2 [0-9a-f]{64}\.tlc" <<< "$log" || [ "$files" -ne "$3" ]; then
    printf 'build "%s": expected a %s and then %s files, got %s and:\n%s\n' "$1" "$2" "$3" "$files" "$log"
    failed=1
  fi
}
expect ours stored 1
expect other stored 2
expect ours hit 2
expect other hit 2
exit $failed
