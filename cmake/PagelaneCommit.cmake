# cmake -DSOURCE=<folder> -DOUTPUT=<file> -P PagelaneCommit.cmake
#
# Writes the commit of SOURCE as a header; leaves the file alone if it is the
# same, so that nothing is compiled again.
execute_process(
  COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=10 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
set(text "#define PL_BUILD_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
