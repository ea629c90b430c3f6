# Compiles SOURCE, which must fail with a diagnostic that contains the text of its first line:
#   // expect: text
# or be that one and no other:
#   // expect nothing but: text
file(STRINGS ${SOURCE} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect( nothing but)?: (.+)$")
  message(FATAL_ERROR "${SOURCE}: the first line must be `// expect: text of the diagnostic`")
endif()
set(alone "${CMAKE_MATCH_1}")
set(expected "${CMAKE_MATCH_2}")
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} ${SOURCE}
  ERROR_VARIABLE diagnostics RESULT_VARIABLE status)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not: ${expected}")
endif()
string(FIND "${diagnostics}" "${expected}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "no diagnostic of ${SOURCE} says: ${expected}\n${diagnostics}")
endif()
string(REGEX MATCHALL "[:] error: " errors "${diagnostics}")
list(LENGTH errors count)
if(alone AND NOT count EQUAL 1)
  message(FATAL_ERROR "${SOURCE} must meet one error and no other, but meets ${count}:\n${diagnostics}")
endif()
