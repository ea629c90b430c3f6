# Compiles SOURCE, which must fail with a diagnostic that contains the text of its first line:
#   // expect: text
file(STRINGS ${SOURCE} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE}: the first line must be `// expect: text of the diagnostic`")
endif()
set(expected "${CMAKE_MATCH_1}")
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} ${SOURCE}
  ERROR_VARIABLE diagnostics RESULT_VARIABLE status)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not: ${expected}")
endif()
string(FIND "${diagnostics}" "${expected}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "no diagnostic of ${SOURCE} says: ${expected}\n${diagnostics}")
endif()
