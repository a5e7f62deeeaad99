# pl_build.h (versions, when configured) and pl_commit.h (when built).
pkg_check_modules(OMPI QUIET ompi-c)
if(OMPI_FOUND)
  set(PAGELANE_MPI_TEXT "Open MPI ${OMPI_VERSION} (MPI ${MPI_C_VERSION})")
else()
  set(PAGELANE_MPI_TEXT "MPI ${MPI_C_VERSION}")
endif()

set(generated ${PROJECT_BINARY_DIR}/generated)
configure_file(cmake/pl_build.h.in ${generated}/pl_build.h @ONLY)
set(write_commit ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
  -DOUTPUT=${generated}/pl_commit.h
  -P ${PROJECT_SOURCE_DIR}/cmake/PagelaneCommit.cmake)
add_custom_target(pl_commit COMMAND ${write_commit}
  BYPRODUCTS ${generated}/pl_commit.h VERBATIM)
target_include_directories(pl_options INTERFACE ${generated})
