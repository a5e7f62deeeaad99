# pl_module(<name> SOURCES <file>... [USES <module>...] [LIBS <target>...])
#
# One folder of src/ as a static library pl_<name>.  USES are the modules it
# may include (the arrows of docs/map.md: a missing one does not link in the
# unit tests); LIBS are outside libraries.  All modules together are libpagelane.
function(pl_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;LIBS" ${ARGN})
  add_library(pl_${name} STATIC ${arg_SOURCES})
  target_link_libraries(pl_${name} PUBLIC pl_options)
  foreach(module IN LISTS arg_USES)
    target_link_libraries(pl_${name} PUBLIC pl_${module})
  endforeach()
  target_link_libraries(pl_${name} PUBLIC ${arg_LIBS})
  set_property(GLOBAL APPEND PROPERTY PAGELANE_MODULES pl_${name})
  set_property(GLOBAL APPEND PROPERTY PAGELANE_LIBS ${arg_LIBS})
endfunction()

# pl_library(<target>): the modules so far as one shared library.
function(pl_library name)
  get_property(modules GLOBAL PROPERTY PAGELANE_MODULES)
  get_property(libs GLOBAL PROPERTY PAGELANE_LIBS)
  list(REMOVE_DUPLICATES libs)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>"
    OUTPUT_VARIABLE objects)
  add_library(${name} SHARED ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
  foreach(lib IN LISTS libs)
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:${lib}>)
  endforeach()
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:pl_options>)
endfunction()
