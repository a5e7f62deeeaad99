# As variables, not flags: another MPI ignores them, a flag would stop it.  What
# Open MPI chooses on one machine, without a look at all networks first, and
# ranks that wait give way to those of another test.
set(PAGELANE_MPI_START_ENV
  OMPI_MCA_pml=ob1
  OMPI_MCA_btl=self,vader
  OMPI_MCA_mpi_yield_when_idle=1
  CACHE STRING "What makes ranks start sooner")
set(PAGELANE_MPI_TEST_ENV
  ${PAGELANE_MPI_START_ENV}
  OMPI_ALLOW_RUN_AS_ROOT=1
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_btl_base_warn_component_unused=0
  OMPI_MCA_btl_vader_single_copy_mechanism=none
  H5_COLL_API_SANITY_CHECK=1
  CACHE STRING "Environment of the MPI tests")

# pl_unit_test(<name> SOURCES <file>... USES <module>... [LABELS <label>...])
#   One Check program, run as ctest <name>; exit status 77 is a skip.  Check's
#   limits are for what hangs, not for what is slow on a busy machine: 60 s where
#   a case says nothing, and ten times what is said.
function(pl_unit_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;LABELS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  foreach(module IN LISTS arg_USES)
    target_link_libraries(test_${name} PRIVATE pl_${module})
  endforeach()
  target_link_libraries(test_${name} PRIVATE pl_options PkgConfig::CHECK
    Threads::Threads m)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    LABELS "unit;${arg_LABELS}"
    ENVIRONMENT "CK_DEFAULT_TIMEOUT=60;CK_TIMEOUT_MULTIPLIER=10")
endfunction()

# pl_mpi_test(<name> RANKS <n>... SOURCES <file>... USES <module>...
#             [LABELS <label>...])
#   One program under mpirun, once for each rank count: <name>.np<n>.
function(pl_mpi_test name)
  cmake_parse_arguments(arg "" "" "RANKS;SOURCES;USES;LABELS" ${ARGN})
  if(NOT arg_RANKS)
    message(FATAL_ERROR "pl_mpi_test(${name}): RANKS is missing")
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  foreach(module IN LISTS arg_USES)
    target_link_libraries(test_${name} PRIVATE pl_${module})
  endforeach()
  target_link_libraries(test_${name} PRIVATE pl_options PkgConfig::CHECK
    MPI::MPI_C Threads::Threads m)
  foreach(n IN LISTS arg_RANKS)
    set(test ${name}.np${n})
    add_test(NAME ${test} COMMAND
      ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} ${MPIEXEC_PREFLAGS}
      $<TARGET_FILE:test_${name}> ${MPIEXEC_POSTFLAGS})
    set_tests_properties(${test} PROPERTIES LABELS "mpi;${arg_LABELS}"
      SKIP_RETURN_CODE 77 ENVIRONMENT "${PAGELANE_MPI_TEST_ENV}")
    if(n GREATER 3) # else they spend most of their time on starting
      set_tests_properties(${test} PROPERTIES PROCESSORS 2)
    endif()
  endforeach()
endfunction()
