# awk -f compare_output.awk EXPECTED ACTUAL: whether two texts agree, up to rounding in their numbers.
#
# Vector math functions round differently from one instruction set to another. So fractions may
# differ by 1e-12 of their size where they show more than ten digits (float64), else by 2e-6; all
# other text, and every whole number, must be the same. Runs of blanks count as one: columns move
# with the width of their numbers.
function number_ahead(s) { return match(s, /[0-9]+\.[0-9]*(e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+/) }
function digits(s) { sub(/e.*/, "", s); gsub(/[^0-9]/, "", s); return length(s) }
function abs(x) { x += 0; return x < 0 ? -x : x }
function close_enough(a, b,  tolerance) {
  tolerance = digits(a) > 10 && digits(b) > 10 ? 1e-12 : 2e-6
  return abs(a - b) <= tolerance * (abs(a) > abs(b) ? abs(a) : abs(b))
}
function same(a, b,  x, y) {
  gsub(/[ \t]+/, " ", a); gsub(/[ \t]+/, " ", b)
  while (number_ahead(a)) {
    x = substr(a, RSTART, RLENGTH); y = substr(a, 1, RSTART - 1); a = substr(a, RSTART + RLENGTH)
    if (!number_ahead(b) || substr(b, 1, RSTART - 1) != y) return 0
    y = substr(b, RSTART, RLENGTH); b = substr(b, RSTART + RLENGTH)
    if (!close_enough(x, y) && x != y) return 0
  }
  return a == b
}
NR == FNR { expected[NR] = $0; lines = NR; next }
!same(expected[FNR], $0) { exit failed = 1 }
END { exit failed || FNR != lines }
