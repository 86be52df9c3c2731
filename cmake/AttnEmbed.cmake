# cmake -DOUT=FILE.c "-DTEXTS=NAME=FILE;NAME=FILE.." -P AttnEmbed.cmake: writes C source with `const char NAME[]` for the
# text of each file, so that a program shows files of its own sources as they are.
set(source "/* Made by AttnEmbed.cmake. */\n")
foreach(text ${TEXTS})
  string(REGEX MATCH "^([^=]*)=(.*)$" parts "${text}")
  set(name ${CMAKE_MATCH_1})
  file(READ "${CMAKE_MATCH_2}" content)
  string(REPLACE "\\" "\\\\" content "${content}")
  string(REPLACE "\"" "\\\"" content "${content}")
  string(REPLACE "?" "\\?" content "${content}")
  string(REPLACE "\n" "\\n\"\n    \"" content "${content}")
  string(APPEND source "extern const char ${name}[];\nconst char ${name}[] = \"${content}\";\n")
endforeach()
file(WRITE "${OUT}" "${source}")
