#!/usr/bin/env bash
# install.sh BUILD_DIR CONSUMER: installs, moves the prefix, then builds and runs examples/consumer
# against it with find_package and with pkg-config. Environment: CXX, CXXFLAGS, LIBDIR, SHARED, LLVM.
set -eu
build=$1
consumer=$2
work=$build/install-test
prefix=$work/prefix
rm -rf "$work"
mkdir -p "$work"

cmake --install "$build" --prefix "$work/first" > "$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$prefix"
if grep -rlI -e "$build" -e "$work/first" "$prefix"; then
  echo "the files above hold paths of the build"
  exit 1
fi
find "$prefix" -name LICENSE | grep -q . || { echo "the license is not installed"; exit 1; }

# Only a static library beside a shared LLVM leaves that to the program.
own_llvm=ON
if [ "$SHARED" != ON ] && [ "$LLVM" = shared ]; then own_llvm=OFF; fi

echo "with find_package:"
cmake -S "$consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$CXX" \
  -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=$own_llvm \
  > "$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/consumer" > "$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/consumer/consumer"

if [ $own_llvm = ON ]; then
  echo "with pkg-config:"
  export PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
  # shellcheck disable=SC2046,SC2086  # flags are lists of words
  "$CXX" $CXXFLAGS "$consumer/main.cpp" $(pkg-config --cflags --libs telamon) -o "$work/with_pkg_config"
  LD_LIBRARY_PATH=$prefix/$LIBDIR "$work/with_pkg_config"
elif [ -e "$prefix/$LIBDIR/pkgconfig/telamon.pc" ]; then
  echo "telamon.pc does not say where LLVM is"
  exit 1
fi
if [ -x "$prefix/bin/telamon" ]; then "$prefix/bin/telamon" info; fi
