# SPDX-License-Identifier: Apache-2.0
# Each dependency is taken from the system, else from the Python wheel that carries it.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)

# floodtide_wheel_file(<distribution> <suffix> <variable>): a file of an installed wheel, empty if there is none.
function(floodtide_wheel_file distribution suffix variable)
  execute_process(COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cpp/cmake/wheel_file.py" ${distribution} ${suffix}
                  OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${path}" PARENT_SCOPE)
endfunction()

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)

find_package(Eigen3 3.4 QUIET NO_MODULE)
if(NOT Eigen3_FOUND)
  floodtide_wheel_file(cmeel-eigen Eigen3Config.cmake eigen_config)
  if(eigen_config)
    cmake_path(GET eigen_config PARENT_PATH eigen_folder)
    find_package(Eigen3 3.4 REQUIRED NO_MODULE PATHS "${eigen_folder}" NO_DEFAULT_PATH)
  else()
    message(FATAL_ERROR "Eigen 3.4 not found: install libeigen3-dev or the wheel cmeel-eigen")
  endif()
endif()

if(FLOODTIDE_PYTHON)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir OUTPUT_VARIABLE pybind11_DIR
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 3.0 CONFIG REQUIRED)
endif()

if(FLOODTIDE_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    floodtide_wheel_file(ros-gtest-vendor src/gtest_vendor/CMakeLists.txt gtest_lists)
    if(NOT gtest_lists)
      message(FATAL_ERROR "GoogleTest not found: install libgtest-dev or the wheel ros-gtest-vendor")
    endif()
    cmake_path(GET gtest_lists PARENT_PATH gtest_folder)
    add_library(gtest STATIC EXCLUDE_FROM_ALL "${gtest_folder}/src/gtest-all.cc" "${gtest_folder}/src/gtest_main.cc")
    target_include_directories(gtest SYSTEM PUBLIC "${gtest_folder}/include" PRIVATE "${gtest_folder}")
    target_link_libraries(gtest PUBLIC Threads::Threads)
    add_library(GTest::gtest ALIAS gtest)
    add_library(GTest::gtest_main ALIAS gtest)
  endif()
endif()
