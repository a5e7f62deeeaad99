# cmake -DMPIEXEC= -DNUMPROC_FLAG= -DRANKS= -DPROGRAM= -P run_session.cmake
#
# Exit statuses under mpirun: 0 when all is well, the given one after an abort,
# and 5 when the program aborts with 0 by mistake.
function(expect launcher expected text)
  execute_process(COMMAND ${launcher} ${PROGRAM} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT result EQUAL expected)
    message(FATAL_ERROR "'${ARGN}' at ${RANKS} ranks: exit status ${result}, "
      "not ${expected}\n${output}${errors}")
  endif()
  if(NOT output MATCHES "${text}")
    message(FATAL_ERROR "'${ARGN}': no '${text}' in\n${output}${errors}")
  endif()
endfunction()

set(mpirun ${MPIEXEC} ${NUMPROC_FLAG} ${RANKS})
math(EXPR last "${RANKS} - 1")
expect("${mpirun}" 0 "rank ${last} of ${RANKS}, launched 1")
expect("${mpirun}" 3 "" 3)
expect("${mpirun}" 5 "" 0)
expect("" 0 "rank 0 of 1, launched 0") # by itself
