# SPDX-License-Identifier: Apache-2.0
message(STATUS "floodtide ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
message(STATUS "  HDF5 ${HDF5_VERSION}, Eigen ${Eigen3_VERSION}, OpenMP ${OpenMP_CXX_VERSION}")
message(STATUS "  MPI plug-ins: ${FLOODTIDE_MPI_FAMILIES}")
if(TARGET _dnnl)
  message(STATUS "  oneDNN plug-in: ${dnnl_VERSION}, ${FLOODTIDE_ONEDNN_LIBRARY}")
else()
  message(STATUS "  oneDNN plug-in: no")
endif()
