# LLVM 19 for src/compiler: telamon_llvm_headers for compiling, TELAMON_LLVM_LIBRARIES for linking.
find_package(LLVM 19.1 REQUIRED CONFIG)
add_library(telamon_llvm_headers INTERFACE)
target_include_directories(telamon_llvm_headers SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(telamon_llvm_headers INTERFACE ${llvm_definitions})
if(TELAMON_LLVM STREQUAL shared)
  set(TELAMON_LLVM_LIBRARIES LLVM)
else()
  llvm_map_components_to_libnames(TELAMON_LLVM_LIBRARIES
    core support jitlink orcshared native nativecodegen passes instcombine scalaropts vectorize analysis ipo
    transformutils target mc object executionengine)
endif()
