#!/usr/bin/env bash
# The long checks: gcc and clang, address, undefined behaviour and thread sanitizers, guarded arrays, AArch64, the
# long tests, and clang-tidy over everything. A step that fails ends none of the others; the table at the end says how
# each ended.
#
#   scripts/verify.sh                 all steps that have not passed at this commit, with these compilers
#   scripts/verify.sh STEP...         those named, whether they have or not
#
# All take hours: an interrupted run goes on where it was. What has passed is noted in build/verified.
set -u
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

build() { cmake --preset "$1" > /dev/null && cmake --build build/"$1" -j "$jobs"; }
run_tests() { ctest --test-dir build/"$1" -j "$jobs" --output-on-failure "${@:2}"; }
build_and_test() { build "$1" && run_tests "$1" -LE long; }

# clang's build shares nothing with gcc's of the same preset: a folder of its own.
clang_build() {
  cmake --preset dev -B build/clang -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19 > /dev/null &&
    cmake --build build/clang -j "$jobs" && run_tests clang -LE long
}

# The statically linked command is to stay below 60 MB.
small_enough() {
  local size
  size=$(stat -c %s "$1")
  echo "$1: $size bytes"
  [ "$size" -lt 60000000 ]
}

# A static library with LLVM inside: of the tests, those for which that matters.
static_build() {
  cmake --preset static -DTELAMON_BUILD_TESTS=ON > /dev/null &&
    cmake --build build/static -j "$jobs" --target telamon_command beside_llvm &&
    small_enough build/static/bin/telamon &&
    run_tests static -R '^(conformance\.Selection|project\.(Exports|RunsBeside|IsInstalled).*)$'
}

# The options that no other step builds: a library without a compiler of its own, which is static here.
interpreted_build() {
  cmake --preset release -B build/interpreted -DTELAMON_SHARED=OFF -DTELAMON_LLVM=off > /dev/null &&
    cmake --build build/interpreted -j "$jobs" && run_tests interpreted -LE long
}

# Generated code and kernels are no concern of the address sanitizer: pages that nobody may touch find what they do.
guarded_build() {
  cmake --preset release -B build/guarded -DTELAMON_GUARD_PAGES=ON > /dev/null &&
    cmake --build build/guarded -j "$jobs" --target telamon_command &&
    tests/conformance/guarded.sh build/guarded/bin/telamon .
}

long_tests() { build release && run_tests release -L long; }

# Name, what it is, command.
steps=(
  "release|gcc, release|build_and_test release"
  "long|long tests|long_tests"
  "dev|gcc, dev|build_and_test dev"
  "clang|clang, dev|clang_build"
  "static|static|static_build"
  "interpreted|static, interpreted|interpreted_build"
  "asan|address and undefined|build_and_test asan"
  "guarded|guarded arrays|guarded_build"
  "tsan|threads|build_and_test tsan"
  "aarch64|AArch64, emulated|scripts/cross_aarch64.sh test_compiler"
  "lint|clang-format, clang-tidy|scripts/lint.sh --all"
)
names=" $(printf '%s ' "${steps[@]%%|*}")"
for name in "$@"; do
  [[ $names = *" $name "* ]] || { echo "no step $name; there are:$names" >&2; exit 2; }
done
scripts/setup.sh --verify || exit 1

commit=$(git rev-parse HEAD 2> /dev/null)
is_committed() {
  [ -n "$commit" ] && [ -z "$(git status --porcelain)" ] && [ "$(git rev-parse HEAD)" = "$commit" ]
}
tools=$({ c++ --version; clang++-19 --version; cmake --version; } 2>&1 | cksum | cut -d' ' -f1)

results=()
failed=0
for step in "${steps[@]}"; do
  IFS='|' read -r name what command <<< "$step"
  [ $# -eq 0 ] || [[ " $* " = *" $name "* ]] || continue
  passed=build/verified/$commit-$tools/$name
  start=$SECONDS
  if [ $# -eq 0 ] && is_committed && [ -e "$passed" ]; then
    outcome="passed before, $(cat "$passed") s"
  else
    echo "== $what"
    if $command; then outcome=passed; else outcome=FAILED failed=1; fi
    seconds=$((SECONDS - start))
    if [ $outcome = passed ] && is_committed; then
      mkdir -p "${passed%/*}"
      echo $seconds > "$passed"
    fi
    outcome+=", $seconds s"
  fi
  results+=("$(printf '%-12s %-26s %s' "$name" "$what" "$outcome")")
done

echo
printf '%s\n' "${results[@]}"
exit $failed
