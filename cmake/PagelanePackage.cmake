# What `cmake --install` puts where: headers, library, program, CMake package,
# pkg-config file.  The package exports no dependency of ours.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pagelane)
install(TARGETS pagelane EXPORT pagelaneTargets)
install(TARGETS pagelane_program)
install(DIRECTORY src/include/pagelane
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT pagelaneTargets NAMESPACE pagelane:: DESTINATION ${package_dir})

configure_package_config_file(cmake/pagelaneConfig.cmake.in pagelaneConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(pagelaneConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/pagelaneConfig.cmake
  ${PROJECT_BINARY_DIR}/pagelaneConfigVersion.cmake
  DESTINATION ${package_dir})

# Relative to the .pc file: the installed tree may be moved.
file(RELATIVE_PATH PAGELANE_PC_PREFIX
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/pagelane.pc.in pagelane.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pagelane.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
