# attn_find_blas(<kind> <out>): where one kind of BLAS library with a CBLAS interface is on this machine.
#
# kind is openblas, blis, mkl or netlib. Sets in the caller's scope
#   <out>_LIBRARY      the library file, empty when it is not here
#   <out>_INCLUDE_DIR  the folder of its header, empty when it needs none
#   <out>_HEADER       the header that declares cblas_sgemm, a name in that folder
#
# Installed beside attnConfig.cmake: the static libattn looks for its BLAS again on the machine that links it.

function(attn_find_blas kind out)
  # What each kind is called: pkg-config modules, library names, header names, folders below the usual ones.
  if(kind STREQUAL "openblas")
    set(modules openblas)
    set(libraries openblas)
    set(headers cblas-openblas.h cblas.h)
    set(suffixes openblas openblas-pthread openblas-openmp)
  elseif(kind STREQUAL "blis")
    set(modules blis)
    set(libraries blis)
    set(headers cblas.h)
    set(suffixes blis blis-pthread blis-openmp)
  elseif(kind STREQUAL "mkl")
    set(modules mkl-sdl)
    set(libraries mkl_rt)
    set(headers mkl_cblas.h)
    set(suffixes mkl)
  elseif(kind STREQUAL "netlib")
    set(modules cblas blas-netlib)
    set(libraries cblas blas)
    set(headers cblas-netlib.h cblas.h)
    set(suffixes blas)
  else()
    message(FATAL_ERROR "ATTN_BLAS is \"${kind}\", but must be auto, openblas, blis, mkl or netlib")
  endif()

  # pkg-config only gives hints: what it would link besides, such as gfortran, libattn does not need.
  string(TOUPPER ${kind} KIND)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_search_module(ATTN_PC_${KIND} QUIET ${modules})
  endif()
  find_library(ATTN_${KIND}_LIBRARY NAMES ${libraries} HINTS ${ATTN_PC_${KIND}_LIBRARY_DIRS} ENV MKLROOT
               PATH_SUFFIXES ${suffixes} lib/intel64)
  find_path(ATTN_${KIND}_INCLUDE_DIR NAMES ${headers} HINTS ${ATTN_PC_${KIND}_INCLUDE_DIRS} ENV MKLROOT
            PATH_SUFFIXES ${suffixes} include)
  mark_as_advanced(ATTN_${KIND}_LIBRARY ATTN_${KIND}_INCLUDE_DIR)
  set(library ${ATTN_${KIND}_LIBRARY})
  set(include_dir ${ATTN_${KIND}_INCLUDE_DIR})
  if(library)
    # Debian keeps each flavour in a folder of its own, with a link to the one in use in the folder that the loader
    # searches. Take that link: a library there needs no run path, and another flavour can be chosen at run time.
    get_filename_component(file ${library} NAME)
    find_library(ATTN_${KIND}_LINK NAMES ${file})
    mark_as_advanced(ATTN_${KIND}_LINK)
    if(ATTN_${KIND}_LINK)
      file(REAL_PATH ${library} real_library)
      file(REAL_PATH ${ATTN_${KIND}_LINK} real_link)
      if(real_library STREQUAL real_link)
        set(library ${ATTN_${KIND}_LINK})
      endif()
    endif()
  else()
    set(library)
  endif()
  set(header)
  if(include_dir)
    foreach(name ${headers})
      if(NOT header AND EXISTS ${include_dir}/${name})
        set(header ${name})
      endif()
    endforeach()
  else()
    set(include_dir)
  endif()

  set(${out}_LIBRARY "${library}" PARENT_SCOPE)
  set(${out}_INCLUDE_DIR "${include_dir}" PARENT_SCOPE)
  set(${out}_HEADER "${header}" PARENT_SCOPE)
endfunction()
