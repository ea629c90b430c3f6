# `cmake --install`: headers, library, the command, and what find_package and pkg-config read. Nothing
# installed holds an absolute path, so the prefix may be moved.
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/telamon)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/telamon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.hpp)
install(TARGETS ${TELAMON_EXPORTED_TARGETS} EXPORT telamonTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT telamonTargets NAMESPACE telamon:: DESTINATION ${config_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/telamonConfig.cmake.in
  ${PROJECT_BINARY_DIR}/telamonConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/telamonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/telamonConfig.cmake ${PROJECT_BINARY_DIR}/telamonConfigVersion.cmake
  DESTINATION ${config_dir})

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(NOT TELAMON_SHARED AND TELAMON_LLVM STREQUAL shared)
  return()  # only find_package knows where LLVM is
endif()
if(TELAMON_SHARED)
  set(pc_cflags "")
  set(pc_libs -ltelamon)
else()
  set(pc_cflags " -DTELAMON_STATIC")
  # One word: pkg-config may change the order of several.
  set(pc_libs "-Wl,--push-state,--whole-archive,-l:libtelamon.a,--pop-state -lfmt -ldl -pthread")
  foreach(library IN LISTS TELAMON_BESIDE_LLVM)
    string(APPEND pc_libs " -l${library}")
  endforeach()
endif()
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/telamon.pc.in ${PROJECT_BINARY_DIR}/telamon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/telamon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
