# Runs PROGRAM and compares what it prints with the file EXPECTED, when there is one, up to rounding
# (compare_output.awk). The output is left in ACTUAL, so a change that is meant is taken over with
# `cp ACTUAL EXPECTED`.
execute_process(COMMAND ${PROGRAM} OUTPUT_FILE ${ACTUAL} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  file(READ ${ACTUAL} text)
  message(FATAL_ERROR "${text}\n${PROGRAM} ended with ${status}")
endif()
if(EXISTS ${EXPECTED})
  execute_process(COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/compare_output.awk ${EXPECTED} ${ACTUAL}
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    execute_process(COMMAND diff -u ${EXPECTED} ${ACTUAL})
    message(FATAL_ERROR "output differs from ${EXPECTED}\nif that is meant: cp ${ACTUAL} ${EXPECTED}")
  endif()
endif()
