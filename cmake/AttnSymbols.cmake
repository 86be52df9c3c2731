# attn_export_symbols(<shared library> <list>): exports the functions of a committed list and nothing else.
#
# A line of the list is "<version node> <function>". Where the linker knows version scripts, one is made from the list.
# The linker also refuses symbols that no library on its command line defines; optional ones are weak references.
include(CheckLinkerFlag)

function(attn_export_symbols target list)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} lines REGEX "^[A-Z]")
  set(nodes)
  foreach(line ${lines})
    string(REPLACE " " ";" parts ${line})
    list(GET parts 0 node)
    list(GET parts 1 name)
    list(APPEND nodes ${node})
    string(APPEND names_${node} "    ${name};\n")
  endforeach()
  list(REMOVE_DUPLICATES nodes)

  set(script)
  set(hide_rest "  local:\n    *;\n")
  foreach(node ${nodes})
    string(APPEND script "${node} {\n  global:\n${names_${node}}${hide_rest}};\n")
    set(hide_rest)
  endforeach()
  set(script_file ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${script_file} CONTENT "${script}")

  if(UNIX AND NOT APPLE)
    target_link_options(${target} PRIVATE LINKER:--version-script=${script_file})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script_file})
  endif()
  # With a sanitizer the program, not the library, brings the sanitizer's run-time.
  check_linker_flag(C LINKER:-z,defs ATTN_LINKER_HAS_DEFS)
  if(ATTN_LINKER_HAS_DEFS AND NOT ATTN_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
