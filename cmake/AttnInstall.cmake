# Install rules: headers, both libraries, the CMake package and the pkg-config file. No installed file holds a path of
# the machine that built it, so the installed tree can be moved.
include(CMakePackageConfigHelpers)

set(ATTN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attn)

if(TARGET attn_weights)
  set(ATTN_ABSENT_HEADER)
else()
  set(ATTN_ABSENT_HEADER PATTERN weights.h EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h" ${ATTN_ABSENT_HEADER})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS attn EXPORT attnTargets)
install(TARGETS attn_static EXPORT attnStaticTargets)
# Two exports: whoever links the shared library needs no BLAS library of his own.
install(EXPORT attnTargets NAMESPACE attn:: DESTINATION ${ATTN_CMAKE_DIR})
install(EXPORT attnStaticTargets NAMESPACE attn:: DESTINATION ${ATTN_CMAKE_DIR})
if(TARGET attn_weights)
  install(TARGETS attn_weights EXPORT attnWeightsTargets)
  install(TARGETS attn_weights_static EXPORT attnWeightsStaticTargets)
  install(EXPORT attnWeightsTargets NAMESPACE attn:: DESTINATION ${ATTN_CMAKE_DIR})
  install(EXPORT attnWeightsStaticTargets NAMESPACE attn:: DESTINATION ${ATTN_CMAKE_DIR})
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake
                              INSTALL_DESTINATION ${ATTN_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/AttnFindBlas.cmake
        DESTINATION ${ATTN_CMAKE_DIR})

# attn.pc finds its prefix from where it stands. For a static link it names the BLAS library as a library, not as a
# pkg-config module: Debian's openblas.pc asks for gfortran, which is needed for LAPACK only.
set(ATTN_PC_DIR ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH ATTN_PC_TO_PREFIX ${ATTN_PC_DIR} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" ATTN_PC_TO_PREFIX "${ATTN_PC_TO_PREFIX}")
file(RELATIVE_PATH ATTN_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH ATTN_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
get_filename_component(ATTN_BLAS_NAME ${ATTN_BLAS_FILE} NAME_WE)
string(REGEX REPLACE "^lib" "-l" ATTN_PC_PRIVATE_LIBS "${ATTN_BLAS_NAME}")
get_filename_component(ATTN_BLAS_FILE_DIR ${ATTN_BLAS_FILE} DIRECTORY)
if(NOT ATTN_BLAS_FILE_DIR IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
  string(PREPEND ATTN_PC_PRIVATE_LIBS "-L${ATTN_BLAS_FILE_DIR} ")
endif()
foreach(name ${ATTN_RUNTIME_LIBRARIES})
  if(name MATCHES "^-L")
    string(APPEND ATTN_PC_PRIVATE_LIBS " ${name}")
  else()
    string(APPEND ATTN_PC_PRIVATE_LIBS " -l${name}")
  endif()
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/attn.pc.in ${PROJECT_BINARY_DIR}/attn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET attn_weights)
  set(ATTN_PC_LAPACKE_LIBS)
  if(NOT ATTN_LAPACKE_IN_BLAS)
    set(ATTN_PC_LAPACKE_LIBS -llapacke)
  endif()
  # A shared LAPACKE names what else it needs itself. With -static: LAPACK, which OpenBLAS and MKL hold, and the Fortran
  # run-time behind it.
  string(APPEND ATTN_PC_LAPACKE_LIBS " ${ATTN_PC_PRIVATE_LIBS}")
  if(ATTN_BLAS_KIND MATCHES "blis|netlib")
    string(APPEND ATTN_PC_LAPACKE_LIBS " -llapack")
  endif()
  foreach(name ${ATTN_FORTRAN_LIBRARIES})
    string(APPEND ATTN_PC_LAPACKE_LIBS " -l${name}")
  endforeach()
  string(APPEND ATTN_PC_LAPACKE_LIBS " -lm")
  configure_file(${CMAKE_CURRENT_LIST_DIR}/attn_weights.pc.in ${PROJECT_BINARY_DIR}/attn_weights.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/attn_weights.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(ATTN_BUILD_BENCH AND TARGET attn-bench)
  # The program finds the library from where it stands.
  file(RELATIVE_PATH ATTN_BIN_TO_LIB ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(attn-bench PROPERTIES INSTALL_RPATH $<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>/${ATTN_BIN_TO_LIB})
  install(TARGETS attn-bench)
endif()
