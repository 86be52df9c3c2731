# Build options and the flags that every C target of the project shares (attn_flags).
include(CheckCSourceCompiles)
include(CMakeDependentOption)
include(CMakePushCheckState)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

option(ATTN_BUILD_TESTS "Build the tests (needs cmocka)" ${PROJECT_IS_TOP_LEVEL})
option(ATTN_BUILD_BENCH "Build attn-bench (needs jansson)" ${PROJECT_IS_TOP_LEVEL})
option(ATTN_OPENMP "Use OpenMP threads where the compiler has them" ON)
option(ATTN_WERROR "Treat warnings as errors" OFF)
set(ATTN_SANITIZE "" CACHE STRING "Sanitizers for everything, such as address,undefined")
set(ATTN_BLAS auto CACHE STRING "auto, openblas, blis, mkl or netlib")
set_property(CACHE ATTN_BLAS PROPERTY STRINGS auto openblas blis mkl netlib)
set(ATTN_WEIGHTS auto CACHE STRING "Build libattn_weights: auto (where LAPACKE is found), ON or OFF")
set_property(CACHE ATTN_WEIGHTS PROPERTY STRINGS auto ON OFF)
set(ATTN_CASES_DIR "" CACHE PATH "Folder of ONNX conformance cases; their test is skipped without it")

# attn_check_option(<name> <words> <value>...): a value that is none must not be taken for another, as "maybe" is true to
# CMake.
function(attn_check_option name words)
  string(TOUPPER "${${name}}" upper) # of ON and OFF, which CMake takes in any letters
  if(NOT ${name} IN_LIST ARGN AND NOT upper IN_LIST ARGN)
    message(FATAL_ERROR "${name} is \"${${name}}\", but must be ${words}")
  endif()
endfunction()
set(ATTN_BOOLEANS ON OFF 1 0 YES NO TRUE FALSE Y N)
# A type that nobody defined flags for would be a build without optimisation; None is what packagers build with.
string(TOUPPER "${CMAKE_BUILD_TYPE}" upper)
if(CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL AND NOT upper STREQUAL "NONE" AND NOT CMAKE_C_FLAGS_${upper})
  message(FATAL_ERROR "CMAKE_BUILD_TYPE is \"${CMAKE_BUILD_TYPE}\", but must be Debug, Release, RelWithDebInfo, MinSizeRel "
                      "or one with CMAKE_C_FLAGS_${upper}")
endif()
foreach(name ATTN_BUILD_TESTS ATTN_BUILD_BENCH ATTN_OPENMP ATTN_WERROR)
  attn_check_option(${name} "ON or OFF" ${ATTN_BOOLEANS})
endforeach()
attn_check_option(ATTN_WEIGHTS "auto, ON or OFF" auto ${ATTN_BOOLEANS})
attn_check_option(ATTN_BLAS "auto, openblas, blis, mkl or netlib" auto openblas blis mkl netlib)
if(ATTN_SANITIZE)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=${ATTN_SANITIZE})
  string(MAKE_C_IDENTIFIER "ATTN_SANITIZE_HAS_${ATTN_SANITIZE}" ATTN_SANITIZE_WORKS)
  check_c_source_compiles("int main(void) { return 0; }" ${ATTN_SANITIZE_WORKS})
  cmake_pop_check_state()
  if(NOT ${ATTN_SANITIZE_WORKS})
    message(FATAL_ERROR "ATTN_SANITIZE is \"${ATTN_SANITIZE}\", but this compiler has no -fsanitize=${ATTN_SANITIZE}")
  endif()
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# -ffp-contract=off: a product and a sum are fused only where the source says so, the same in vector bodies and tails.
add_library(attn_flags INTERFACE)
target_compile_options(attn_flags INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -ffp-contract=off
                                            -fno-math-errno -fno-trapping-math)
if(ATTN_WERROR)
  target_compile_options(attn_flags INTERFACE -Werror)
endif()
if(ATTN_SANITIZE)
  target_compile_options(attn_flags INTERFACE -fsanitize=${ATTN_SANITIZE} -fno-omit-frame-pointer
                                              -fno-sanitize-recover=all)
  target_link_options(attn_flags INTERFACE -fsanitize=${ATTN_SANITIZE})
endif()

# What the library links besides BLAS, by name: what is installed must serve other machines too. A folder is named only
# where the compiler does not look by itself, as clang for its OpenMP library.
set(ATTN_RUNTIME_LIBRARIES)
if(ATTN_OPENMP)
  find_package(OpenMP COMPONENTS C)
  if(OpenMP_C_FOUND)
    foreach(name ${OpenMP_C_LIB_NAMES})
      get_filename_component(folder ${OpenMP_${name}_LIBRARY} DIRECTORY)
      if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND ATTN_RUNTIME_LIBRARIES -L${folder})
      endif()
      list(APPEND ATTN_RUNTIME_LIBRARIES ${name})
    endforeach()
  endif()
endif()
if(NOT MSVC)
  list(APPEND ATTN_RUNTIME_LIBRARIES pthread m ${CMAKE_DL_LIBS}) # dlsym() finds what BLAS and OpenMP have
endif()
list(REMOVE_DUPLICATES ATTN_RUNTIME_LIBRARIES)
