#!/usr/bin/env bash
# Builds the library for AArch64 and runs tests under emulation.
#   scripts/cross_aarch64.sh [TEST ...]      default: test_compiler
# Debian's arm64 packages are unpacked below build/aarch64-root: the system stays as it is.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh --cross
root=$PWD/build/aarch64-root
jobs=${JOBS:-$(nproc)}
tests=("${@:-test_compiler}")

packages=(llvm-19-dev libzstd-dev zlib1g-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  libgtest-dev libgmock-dev librapidcheck-dev libc6-dev libstdc++6)
if [ ! -f "$root/complete" ]; then
  # An apt of its own: arm64 is its architecture, and nothing is installed there yet.
  mkdir -p "$root"/{lists/partial,archives/partial}
  : > "$root/status"
  apt() {
    apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$root/status" \
      -o Dir::State::lists="$root/lists" -o Dir::Cache="$root" -o Dir::Cache::archives="$root/archives" \
      -o Debug::NoLocking=1 "$@"
  }
  apt update
  apt install --no-install-recommends --download-only "${packages[@]}"
  for package in "$root"/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
  rm -rf "$root/archives" "$root/lists"
  touch "$root/complete"
fi

cmake -G Ninja -S . -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DCMAKE_BUILD_TYPE=Release \
  -DTELAMON_LLVM=shared -DTELAMON_BUILD_BENCH=OFF > /dev/null
cmake --build build/aarch64 -j "$jobs" --target "${tests[@]}"
# A test that starts itself again would start the emulator, and those that limit memory would limit the emulator's.
for test in "${tests[@]}"; do
  qemu-aarch64-static -L "$root" "build/aarch64/tests/$test" --gtest_brief=1 \
    --gtest_filter='-*LONG*:ProgramStore.ServesFourProcessesAtOnce:MemoryLimits.*'
done
