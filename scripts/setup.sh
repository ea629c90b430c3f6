#!/usr/bin/env bash
# Installs the Debian packages that Telamon is built with (docs/dependencies.md says what each is for).
#   scripts/setup.sh            what `make build test bench demo` need
#   scripts/setup.sh --lint     also clang-format and clang-tidy
#   scripts/setup.sh --bench    also what the side-by-side compares with, `make bench-jax`
#   scripts/setup.sh --cross    also what builds for AArch64 and runs that, scripts/cross_aarch64.sh
#   scripts/setup.sh --verify   also clang with its sanitizers, for `make verify`
# Does nothing when all is there. Without the right to install it prints the command and stops.
set -eu

packages=(
  g++ cmake ninja-build pkg-config ccache
  llvm-19-dev libzstd-dev zlib1g-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  libgtest-dev libgmock-dev librapidcheck-dev
)
wishes=()  # used when they are there: Debian has them for some machines only
for argument in "$@"; do
  case $argument in
    --lint) packages+=(clang-format-19 clang-tidy-19) ;;
    --bench) packages+=(python3-venv python3-numpy libopenblas0-pthread libdnnl2) wishes+=(libxsmm-dev) ;;
    --cross) packages+=(g++-12-aarch64-linux-gnu qemu-user-static) ;;
    --verify) packages+=(clang-format-19 clang-tidy-19 clang-19 libclang-rt-19-dev gdb) ;;
    *) echo "usage: scripts/setup.sh [--lint | --bench | --cross | --verify]" >&2; exit 2 ;;
  esac
done

installed=
if command -v dpkg-query > /dev/null; then
  installed=$(dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\n' \
    "${packages[@]}" ${wishes[@]+"${wishes[@]}"} 2> /dev/null | sed -n 's/^.i *//p' || true)
fi
# Sets the array `absent` to those of these packages that are not installed.
look_for() {
  local package
  absent=()
  for package in "$@"; do
    grep -qxF -- "$package" <<< "$installed" || absent+=("$package")
  done
}
look_for ${wishes[@]+"${wishes[@]}"}
wishes=(${absent[@]+"${absent[@]}"})
look_for "${packages[@]}"
missing=(${absent[@]+"${absent[@]}"})
[ $((${#missing[@]} + ${#wishes[@]})) -gt 0 ] || exit 0

as_root=()
may_install=false
if command -v apt-get > /dev/null; then
  if [ "$(id -u)" = 0 ]; then
    may_install=true
  elif sudo -n true 2> /dev/null; then
    may_install=true
    as_root=(sudo -n)
  fi
fi
if ! $may_install && [ ${#missing[@]} = 0 ]; then
  echo "going on without: ${wishes[*]}"
  exit 0
fi
if ! $may_install; then
  echo "Telamon needs packages that are not installed. On Debian 12 or later:"
  echo
  echo "  sudo apt-get install ${missing[*]} ${wishes[*]-}"
  echo
  echo "With the same libraries from elsewhere, skip this check: make SETUP=true test"
  exit 1
fi

echo "installing with apt-get:" ${missing[@]+"${missing[@]}"} ${wishes[@]+"${wishes[@]}"}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >> "$log" 2>&1; }
install() { [ $# = 0 ] || apt install --no-install-recommends "$@"; }
if ! { apt update || [ ${#missing[@]} = 0 ]; } || ! install ${missing[@]+"${missing[@]}"}; then
  cat "$log"
  echo "apt-get could not install: ${missing[*]}"
  exit 1
fi
for package in ${wishes[@]+"${wishes[@]}"}; do
  install "$package" || echo "going on without: $package"
done
echo "done"
