# attn_find_lapacke(<out> <BLAS library>): where LAPACKE is on this machine. Sets in the caller's scope
#
#   <out>_LIBRARY      the library file, empty when there is none
#   <out>_INCLUDE_DIR  the folder of its header
#
# MKL and an OpenBLAS built with it have LAPACKE in the BLAS library; Debian has it in a library of its own.
#
# Installed beside attnConfig.cmake: the static libattn_weights looks for LAPACKE again on the machine that links it.
include(CheckLibraryExists)

function(attn_find_lapacke out blas)
  get_filename_component(name ${blas} NAME_WE)
  check_library_exists(${blas} LAPACKE_dgesdd_work "" ATTN_LAPACKE_IN_${name})
  find_library(ATTN_LAPACKE_LIBRARY lapacke)
  get_filename_component(folder ${blas} DIRECTORY)
  find_path(ATTN_LAPACKE_INCLUDE_DIR NAMES lapacke.h mkl_lapacke.h HINTS ${folder}/../include ENV MKLROOT
            PATH_SUFFIXES openblas include)
  mark_as_advanced(ATTN_LAPACKE_LIBRARY ATTN_LAPACKE_INCLUDE_DIR)
  set(library)
  if(ATTN_LAPACKE_IN_${name})
    set(library ${blas})
  elseif(ATTN_LAPACKE_LIBRARY)
    set(library ${ATTN_LAPACKE_LIBRARY})
  endif()
  set(include_dir)
  if(ATTN_LAPACKE_INCLUDE_DIR)
    set(include_dir ${ATTN_LAPACKE_INCLUDE_DIR})
  endif()
  set(${out}_LIBRARY "${library}" PARENT_SCOPE)
  set(${out}_INCLUDE_DIR "${include_dir}" PARENT_SCOPE)
endfunction()
