#!/usr/bin/env bash
# Checks formatting and runs clang-tidy (.clang-tidy), with the compile commands of a configured build.
#   scripts/lint.sh               the files changed since main, or by the last commit when on main
#   scripts/lint.sh --all         every file
#   scripts/lint.sh --seconds N   starts no further clang-tidy after N seconds, and says what was left out
# TELAMON_LINT_BASE names another commit to compare with.
set -u
cd "$(dirname "$0")/.."

all=false
seconds=0
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=true ;;
    --seconds) seconds=$2; shift ;;
    *) echo "usage: scripts/lint.sh [--all] [--seconds N]" >&2; exit 2 ;;
  esac
  shift
done

base_commit() {
  local head base
  head=$(git rev-parse HEAD)
  for name in ${TELAMON_LINT_BASE:-} origin/main main; do
    base=$(git merge-base HEAD "$name" 2> /dev/null) || continue
    if [ "$base" != "$head" ]; then echo "$base"; return; fi
  done
  git rev-parse --verify --quiet HEAD~1
}

sources=('*.cpp' '*.hpp')
if $all; then
  mapfile -t files < <(git ls-files "${sources[@]}")
elif base=$(base_commit); then
  mapfile -t files < <({ git diff --name-only --diff-filter=d "$base" -- "${sources[@]}"
    git ls-files --others --exclude-standard "${sources[@]}"; } | sort -u)
  echo "lint: ${#files[@]} files changed since $(git rev-parse --short "$base")"
else
  echo "lint: no earlier commit to compare with; checking the format of every file"
  mapfile -t files < <(git ls-files "${sources[@]}")
  seconds=1
fi
[ ${#files[@]} -gt 0 ] || exit 0

status=0
clang-format-19 --dry-run -Werror "${files[@]}" || status=1

for preset in release dev; do
  [ -f build/$preset/compile_commands.json ] && break
done
mapfile -t units < <(for file in "${files[@]}"; do
  grep -qF "\"file\": \"$PWD/$file\"" build/$preset/compile_commands.json && echo "$file"
done)
[ ${#units[@]} -gt 0 ] || exit $status

# clang knows none of the options by which gcc keeps registers from a file.
commands=$(mktemp -d)
sed 's/ -ffixed-[a-z0-9]*//g' build/$preset/compile_commands.json > "$commands/compile_commands.json"
skipped=$(mktemp)
trap 'rm -rf "$skipped" "$commands"' EXIT
export skipped commands deadline=$((seconds > 0 ? $(date +%s) + seconds : 0))
tidy() {
  if [ "$deadline" -gt 0 ] && [ "$(date +%s)" -ge "$deadline" ]; then
    echo "$1" >> "$skipped"
    return 0
  fi
  clang-tidy-19 --quiet -p "$commands" --extra-arg=-Wno-unknown-warning-option "$1" 2> /dev/null
}
export -f tidy
printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'tidy "$1"' tidy || status=1
if [ -s "$skipped" ]; then
  echo "lint: clang-tidy had no time for $(wc -l < "$skipped") of ${#units[@]} files; make lint checks them"
fi
exit $status
