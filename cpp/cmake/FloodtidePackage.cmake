# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` copies. Component `cpp`: headers, library, plug-ins and the package that find_package(floodtide) reads.
# Component `python`: what the wheel contains.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/floodtide")
set_target_properties(floodtide_core PROPERTIES EXPORT_NAME core OUTPUT_NAME floodtide)
install(DIRECTORY include/floodtide DESTINATION include COMPONENT cpp)
install(TARGETS floodtide_core EXPORT floodtide ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
install(EXPORT floodtide NAMESPACE floodtide:: FILE floodtideTargets.cmake DESTINATION "${package}" COMPONENT cpp)
configure_package_config_file(cmake/floodtideConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/floodtideConfig.cmake"
                              INSTALL_DESTINATION "${package}" PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/floodtideConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/floodtideConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/floodtideConfigVersion.cmake"
        DESTINATION "${package}" COMPONENT cpp)

# floodtide_install_plugin(<target>): beside the Python module, and in the folder that the package knows.
function(floodtide_install_plugin target)
  install(TARGETS ${target} LIBRARY DESTINATION floodtide COMPONENT python)
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/floodtide" COMPONENT cpp)
endfunction()

# floodtide_install_plugin_files(<folder> <file>...): files that a plug-in needs, in this folder relative to it.
function(floodtide_install_plugin_files folder)
  install(FILES ${ARGN} DESTINATION floodtide/${folder} COMPONENT python)
  install(FILES ${ARGN} DESTINATION "${CMAKE_INSTALL_LIBDIR}/floodtide/${folder}" COMPONENT cpp)
endfunction()
