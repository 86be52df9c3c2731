# Finds LAPACKE for libattn_weights, by ATTN_WEIGHTS. Makes the target attn_lapacke_library where it is found; without it
# that library is left out.
include(AttnFindLapacke)

if(NOT ATTN_WEIGHTS)
  message(STATUS "libattn_weights: not built, ATTN_WEIGHTS is ${ATTN_WEIGHTS}")
  return()
endif()
attn_find_lapacke(found_lapacke ${ATTN_BLAS_FILE})
if(NOT found_lapacke_LIBRARY OR NOT found_lapacke_INCLUDE_DIR)
  set(how "LAPACKE was not found. On Debian or Ubuntu: apt-get install liblapacke-dev")
  if(ATTN_WEIGHTS STREQUAL "auto")
    message(STATUS "libattn_weights: not built. ${how}")
    return()
  endif()
  message(FATAL_ERROR "ATTN_WEIGHTS is ${ATTN_WEIGHTS}, but ${how}")
endif()
set(ATTN_LAPACKE_FILE ${found_lapacke_LIBRARY})
message(STATUS "LAPACKE: ${ATTN_LAPACKE_FILE}, header in ${found_lapacke_INCLUDE_DIR}")

set(ATTN_LAPACKE_INCLUDE_DIRS ${found_lapacke_INCLUDE_DIR})
if(NOT EXISTS ${found_lapacke_INCLUDE_DIR}/lapacke.h)
  # MKL's has another name
  list(APPEND ATTN_LAPACKE_INCLUDE_DIRS ${CMAKE_CURRENT_BINARY_DIR}/lapacke)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/lapacke/lapacke.h CONTENT "#include <mkl_lapacke.h>\n")
endif()
add_library(attn_lapacke_library INTERFACE)
target_include_directories(attn_lapacke_library SYSTEM INTERFACE ${ATTN_LAPACKE_INCLUDE_DIRS})
target_link_libraries(attn_lapacke_library INTERFACE ${ATTN_LAPACKE_FILE})
