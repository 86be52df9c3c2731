# Finds LAPACKE for libattn_weights, by ATTN_WEIGHTS. Makes the target attn_lapacke_library where it is found; without it
# that library is left out. Sets ATTN_LAPACKE_IN_BLAS: MKL and OpenBLAS as its authors build it have LAPACKE in the BLAS
# library, Debian has it in a library of its own.
include(CheckLibraryExists)

set(ATTN_LAPACKE_IN_BLAS FALSE)
if(NOT ATTN_WEIGHTS)
  message(STATUS "libattn_weights: not built, ATTN_WEIGHTS is ${ATTN_WEIGHTS}")
  return()
endif()

get_filename_component(ATTN_BLAS_FOLDER ${ATTN_BLAS_FILE} DIRECTORY)
set(CMAKE_REQUIRED_QUIET ON)
check_library_exists(${ATTN_BLAS_FILE} LAPACKE_dgesdd_work "" ATTN_LAPACKE_IN_${ATTN_BLAS_KIND})
unset(CMAKE_REQUIRED_QUIET)
find_library(ATTN_LAPACKE_LIBRARY lapacke)
find_path(ATTN_LAPACKE_INCLUDE_DIR NAMES lapacke.h mkl_lapacke.h HINTS ${ATTN_BLAS_FOLDER}/../include ENV MKLROOT
          PATH_SUFFIXES openblas include)
mark_as_advanced(ATTN_LAPACKE_LIBRARY ATTN_LAPACKE_INCLUDE_DIR)
if(ATTN_LAPACKE_IN_${ATTN_BLAS_KIND})
  set(ATTN_LAPACKE_IN_BLAS TRUE)
  set(ATTN_LAPACKE_FILE ${ATTN_BLAS_FILE})
else()
  set(ATTN_LAPACKE_FILE ${ATTN_LAPACKE_LIBRARY})
endif()
if(NOT ATTN_LAPACKE_FILE OR NOT ATTN_LAPACKE_INCLUDE_DIR)
  set(ATTN_LAPACKE_HINT "LAPACKE was not found. On Debian or Ubuntu: apt-get install liblapacke-dev")
  if(ATTN_WEIGHTS STREQUAL "auto")
    message(STATUS "libattn_weights: not built. ${ATTN_LAPACKE_HINT}")
    return()
  endif()
  message(FATAL_ERROR "ATTN_WEIGHTS is ${ATTN_WEIGHTS}, but ${ATTN_LAPACKE_HINT}")
endif()
message(STATUS "LAPACKE: ${ATTN_LAPACKE_FILE}, header in ${ATTN_LAPACKE_INCLUDE_DIR}")

add_library(attn_lapacke_library INTERFACE)
target_include_directories(attn_lapacke_library SYSTEM INTERFACE ${ATTN_LAPACKE_INCLUDE_DIR})
if(NOT EXISTS ${ATTN_LAPACKE_INCLUDE_DIR}/lapacke.h)
  # MKL's has another name.
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/lapacke/lapacke.h CONTENT "#include <mkl_lapacke.h>\n")
  target_include_directories(attn_lapacke_library SYSTEM INTERFACE ${CMAKE_CURRENT_BINARY_DIR}/lapacke)
endif()
target_link_libraries(attn_lapacke_library INTERFACE ${ATTN_LAPACKE_FILE})
