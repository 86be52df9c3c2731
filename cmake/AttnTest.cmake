# What every test folder uses: the target attn_cmocka and the functions below. A test has one label: quick (all of them
# in under a minute), full or slow.

set(ATTN_TEST_LABELS quick full slow)

find_library(ATTN_CMOCKA_LIBRARY cmocka)
find_path(ATTN_CMOCKA_INCLUDE_DIR cmocka.h)
mark_as_advanced(ATTN_CMOCKA_LIBRARY ATTN_CMOCKA_INCLUDE_DIR)
if(NOT ATTN_CMOCKA_LIBRARY OR NOT ATTN_CMOCKA_INCLUDE_DIR)
  message(FATAL_ERROR "The tests need cmocka. On Debian or Ubuntu: apt-get install libcmocka-dev. "
                      "Without tests: -DATTN_BUILD_TESTS=OFF")
endif()
add_library(attn_cmocka INTERFACE)
target_include_directories(attn_cmocka SYSTEM INTERFACE ${ATTN_CMOCKA_INCLUDE_DIR})
target_link_libraries(attn_cmocka INTERFACE ${ATTN_CMOCKA_LIBRARY})
# Half the compiler's time, a quarter of a build: test programs spend theirs in the library and the oracle. With sanitizers
# the compiler needs three times as long for -O1 as for -O0.
if(ATTN_SANITIZE)
  target_compile_options(attn_cmocka INTERFACE -O0)
else()
  target_compile_options(attn_cmocka INTERFACE $<$<CONFIG:Release>:-O1>)
endif()

# Tests then bring threads of their own: thread sanitizer does not know OpenMP's run-time.
if(NOT OpenMP_C_FOUND)
  target_compile_definitions(attn_cmocka INTERFACE ATTN_WITHOUT_OPENMP)
endif()

# attn_add_test(<name> <label> <source>...): a cmocka program of that name, linked to the static library so that it
# reaches inside, and to tests/support. More may be added to the target <name> afterwards.
function(attn_add_test name label)
  if(NOT label IN_LIST ATTN_TEST_LABELS)
    message(FATAL_ERROR "attn_add_test(${name}): the label is \"${label}\", but must be one of ${ATTN_TEST_LABELS}")
  endif()
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(${name} PRIVATE attn_flags attn_static attn_support attn_cmocka)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 1200)
endfunction()

# attn_add_skipped_test(<name> <label> <why>): a test that cannot run here, shown as skipped with its reason instead of
# being left out in silence.
function(attn_add_skipped_test name label why)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${why}")
  set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()
