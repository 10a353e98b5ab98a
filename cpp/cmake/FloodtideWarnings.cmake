# SPDX-License-Identifier: Apache-2.0
# floodtide_target(<target>): the flags that every target of ours gets; instruction-set flags are set on single files.
function(floodtide_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                           -ffp-contract=fast -fno-math-errno -fno-trapping-math)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -march=x86-64-v2)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false for "text" + std::string at -O3: GCC bug 105651
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache asks for this flag to cache precompiled headers
  endif()
  if(FLOODTIDE_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FLOODTIDE_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${FLOODTIDE_SANITIZE} -fno-sanitize-recover=all
                                          -fno-omit-frame-pointer -g1)  # lines for reports, quick to compile
    target_link_options(${target} PUBLIC -fsanitize=${FLOODTIDE_SANITIZE})
  endif()
endfunction()

# floodtide_inplace(<target>): a copy beside the Python sources, for work in the source tree.
function(floodtide_inplace target)
  if(FLOODTIDE_INPLACE)
    add_custom_command(TARGET ${target} POST_BUILD
                       COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:${target}> "${PROJECT_SOURCE_DIR}/python/floodtide/")
  endif()
endfunction()

# floodtide_source_options(<file> <option>...): flags of one file of the core, given in the folder that lists it. The file does
# not see the precompiled header, which has other flags; a file with instructions must not contain the standard library.
function(floodtide_source_options file)
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/${file}" TARGET_DIRECTORY floodtide_core PROPERTIES
                              COMPILE_OPTIONS "${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
