#!/usr/bin/env bash
# digits_bad_input.sh PROGRAM DATA: the digits demo names what is wrong with the file it is given.
set -u
program=$1
data=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() {  # file, part of the message
  local message
  if message=$("$program" "$1" 2>&1); then echo "$1: accepted"; failed=1; fi
  case $message in *"$2"*) ;; *) printf '%s: expected "%s", got:\n%s\n' "$1" "$2" "$message"; failed=1 ;; esac
}
expect "$work/nowhere.csv.gz" "cannot open"
gzip -dc "$data" > "$work/plain.csv"
expect "$work/plain.csv" "is not a gzip file"
head -c 20000 "$data" > "$work/cut.csv.gz"
expect "$work/cut.csv.gz" "damaged"
sed '3s/^0,/x,/' "$work/plain.csv" | gzip > "$work/letter.csv.gz"
expect "$work/letter.csv.gz" "row 3, column 1: 'x' is no whole number from 0 to 16"
sed '5s/,[0-9]*$//' "$work/plain.csv" | gzip > "$work/short.csv.gz"
expect "$work/short.csv.gz" "row 5: a row is 65 numbers"
head -n 4 "$work/plain.csv" | gzip > "$work/few.csv.gz"
expect "$work/few.csv.gz" "has only 4 rows"
"$program" --help | grep -q '^digits \[FILE\]' || { echo "--help does not say the usage"; failed=1; }
exit $failed
