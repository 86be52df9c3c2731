# Chooses the BLAS library by ATTN_BLAS and makes the target attn_blas_library: the library, and a folder whose cblas.h
# declares it. Sets ATTN_BLAS_KIND (openblas, blis, mkl, netlib) and ATTN_BLAS_FILE for the install rules.
include(CheckCSourceCompiles)
include(CMakePushCheckState)
include(AttnFindBlas)

if(ATTN_BLAS STREQUAL "auto")
  set(ATTN_BLAS_CANDIDATES openblas blis mkl netlib)
else()
  set(ATTN_BLAS_CANDIDATES ${ATTN_BLAS})
endif()

set(ATTN_BLAS_KIND)
set(ATTN_BLAS_WIDE)
foreach(kind ${ATTN_BLAS_CANDIDATES})
  attn_find_blas(${kind} found)
  if(found_LIBRARY AND found_HEADER)
    # Link once, to see that the library has what its header says.
    cmake_push_check_state(RESET)
    set(CMAKE_REQUIRED_INCLUDES ${found_INCLUDE_DIR})
    set(CMAKE_REQUIRED_LIBRARIES ${found_LIBRARY})
    set(CMAKE_REQUIRED_QUIET ON)
    check_c_source_compiles(
      "#include <${found_HEADER}>
       int main(void) {
           float x = 1;
           cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1);
           return 0;
       }"
      ATTN_BLAS_LINKS_${kind})
    if(ATTN_BLAS_LINKS_${kind})
      # OpenBLAS built with INTERFACE64: its header says so. libattn hands 32-bit integers to BLAS.
      set(CMAKE_REQUIRED_LIBRARIES)
      check_c_source_compiles(
        "#include <${found_HEADER}>
         #ifdef OPENBLAS_USE64BITINT
         #error 64-bit integers
         #endif
         int main(void) { return 0; }"
        ATTN_BLAS_NARROW_${kind})
      if(NOT ATTN_BLAS_NARROW_${kind})
        set(ATTN_BLAS_WIDE "${found_LIBRARY} has 64-bit integers (ILP64), but libattn needs a BLAS library with 32-bit ones. ")
        message(STATUS "BLAS: left out, ${ATTN_BLAS_WIDE}")
        cmake_pop_check_state()
        continue()
      endif()
      set(ATTN_BLAS_KIND ${kind})
      cmake_pop_check_state()
      break()
    endif()
    cmake_pop_check_state()
  endif()
endforeach()

if(NOT ATTN_BLAS_KIND)
  list(JOIN ATTN_BLAS_CANDIDATES ", " ATTN_BLAS_TRIED)
  set(ATTN_BLAS_PACKAGE_blis libblis-dev)
  set(ATTN_BLAS_PACKAGE_mkl libmkl-dev) # of the section non-free
  set(ATTN_BLAS_PACKAGE_netlib libblas-dev)
  set(ATTN_BLAS_PACKAGE ${ATTN_BLAS_PACKAGE_${ATTN_BLAS}})
  if(NOT ATTN_BLAS_PACKAGE)
    set(ATTN_BLAS_PACKAGE libopenblas-dev)
  endif()
  message(FATAL_ERROR "No BLAS library with a CBLAS interface found (tried: ${ATTN_BLAS_TRIED}). ${ATTN_BLAS_WIDE}"
                      "On Debian or Ubuntu: apt-get install ${ATTN_BLAS_PACKAGE}")
endif()
set(ATTN_BLAS_FILE ${found_LIBRARY})
message(STATUS "BLAS: ${ATTN_BLAS_KIND}, ${ATTN_BLAS_FILE}, header ${found_INCLUDE_DIR}/${found_HEADER}")

# The library's sources say <cblas.h>. Where that is not the header's name, or its folder belongs to several BLAS
# libraries, a forwarding header makes sure that the right one is meant.
if(found_HEADER STREQUAL "cblas.h")
  set(ATTN_BLAS_INCLUDE_DIR ${found_INCLUDE_DIR})
else()
  set(ATTN_BLAS_INCLUDE_DIR ${CMAKE_CURRENT_BINARY_DIR}/blas-${ATTN_BLAS_KIND})
  file(CONFIGURE OUTPUT ${ATTN_BLAS_INCLUDE_DIR}/cblas.h CONTENT "#include \"${found_INCLUDE_DIR}/${found_HEADER}\"\n")
endif()

add_library(attn_blas_library INTERFACE)
target_include_directories(attn_blas_library SYSTEM INTERFACE ${ATTN_BLAS_INCLUDE_DIR})
target_link_libraries(attn_blas_library INTERFACE ${ATTN_BLAS_FILE})
