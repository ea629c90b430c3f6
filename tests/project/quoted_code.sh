#!/usr/bin/env bash
# Code and output that the documentation quotes stand in the files they are quoted from: a block
# after `<!-- from PATH -->` is a part of that file, blanks aside.
set -u
cd "$(dirname "$0")/../.."
failed=0
checked=0
check() {  # document, source, block
  checked=$((checked + 1))
  [ -f "$2" ] || { echo "$1: no file $2"; failed=1; return; }
  local text block
  text=$(tr -d '[:space:]' < "$2")
  block=$(printf %s "$3" | tr -d '[:space:]')
  if [ -z "$block" ] || [[ "$text" != *"$block"* ]]; then
    printf '%s: not in %s:\n%s\n' "$1" "$2" "$3"
    failed=1
  fi
}
while IFS= read -r document; do
  source='' inside=0 block=''
  while IFS= read -r line; do
    case $line in
      '<!-- from '*' -->') source=${line#<!-- from }; source=${source% -->} ;;
      '```'*)
        [ -n "$source" ] || continue
        if [ $inside = 0 ]; then inside=1; block=''
        else check "$document" "$source" "$block"; inside=0; source=''; fi ;;
      *) [ $inside = 0 ] || block+=$line$'\n' ;;
    esac
  done < "$document"
  [ -z "$source" ] || { echo "$document: no block follows '$source'"; failed=1; }
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*')
[ $checked -gt 0 ] || { echo "no quoted code was found"; failed=1; }
exit $failed
