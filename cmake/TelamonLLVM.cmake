# LLVM 19 for src/compiler: telamon_llvm_headers for compiling, TELAMON_LLVM_LIBRARIES for linking. With a static
# library programs link TELAMON_BESIDE_LLVM, what LLVM itself calls.
find_package(LLVM 19.1 REQUIRED CONFIG)
add_library(telamon_llvm_headers INTERFACE)
target_include_directories(telamon_llvm_headers SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(telamon_llvm_headers INTERFACE ${llvm_definitions})
set(TELAMON_BESIDE_LLVM "")
if(TELAMON_LLVM STREQUAL shared)
  set(TELAMON_LLVM_LIBRARIES LLVM)
else()
  llvm_map_components_to_libnames(TELAMON_LLVM_LIBRARIES
    core support jitlink orcshared native nativecodegen passes instcombine scalaropts vectorize analysis ipo
    transformutils target mc object executionengine)
  if(LLVM_ENABLE_ZLIB)
    list(APPEND TELAMON_BESIDE_LLVM z)
  endif()
  if(LLVM_ENABLE_ZSTD)
    list(APPEND TELAMON_BESIDE_LLVM zstd)
  endif()
endif()

# Puts what the static library `target` needs of LLVM's archives into it. Of a changed script the library is made anew:
# LINK_DEPENDS says nothing to Ninja about static libraries, so the object of `source`, one of its files, depends on it.
function(telamon_take_in_llvm target source)
  set(script ${PROJECT_SOURCE_DIR}/cmake/take_in_llvm.sh)
  set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS ${script})
  set(archives "")
  set(left ${TELAMON_LLVM_LIBRARIES})
  while(NOT left STREQUAL "")
    list(POP_FRONT left library)
    if(library MATCHES "^LLVM" AND NOT library IN_LIST archives)
      list(APPEND archives ${library})
      get_target_property(more ${library} INTERFACE_LINK_LIBRARIES)
      if(more)
        list(APPEND left ${more})
      endif()
    endif()
  endwhile()
  list(TRANSFORM archives REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -E env AR=${CMAKE_AR} CXX=${CMAKE_CXX_COMPILER} LD=${CMAKE_LINKER} NM=${CMAKE_NM}
      OBJCOPY=${CMAKE_OBJCOPY} ${script} $<TARGET_FILE:${target}> ${archives})
endfunction()
