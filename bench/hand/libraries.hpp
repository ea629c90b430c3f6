// Libraries that loops by hand call, found at run time, with as many threads as the others have.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "hand.hpp"

namespace bench {

/// Null where the machine has it not. Threads are said before: libraries read them once.
inline void* library(const char* name) {
  setenv("OMP_NUM_THREADS", std::to_string(threads()).c_str(), 0);
  setenv("OPENBLAS_NUM_THREADS", std::to_string(threads()).c_str(), 0);
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
template <class Function>
Function symbol(void* from, const char* name) {
  return from == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(from, name));
}

}  // namespace bench
