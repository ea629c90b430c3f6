# What holds for every target: language, output folders, warnings, arithmetic, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE ccache)
  mark_as_advanced(CCACHE)
  if(CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  endif()
endif()

# Compile options of every target of the project. No contraction of a*b+c anywhere: results must not
# depend on the compiler or on which instruction set was chosen at run time.
add_library(telamon_options INTERFACE)
target_compile_options(telamon_options INTERFACE
  -ffp-contract=off
  -Wall -Wextra -Wpedantic
  -Wno-missing-field-initializers  # rules and parameters are written with designated initializers
  $<$<BOOL:${TELAMON_WERROR}>:-Werror>
  # gcc 12 reports these for correct code of its own standard library (PR105651, PR105329, PR104165).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-maybe-uninitialized>)
target_compile_definitions(telamon_options INTERFACE
  $<$<BOOL:${TELAMON_DEBUG_CHECKS}>:TELAMON_DEBUG_CHECKS=1>
  $<$<BOOL:${TELAMON_GUARD_PAGES}>:TELAMON_GUARD_PAGES=1>)
