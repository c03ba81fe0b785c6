# embed.cmake - turns .tile files into one C table (stdlib/stdlib.h).
#
#   cmake -DOUTPUT=stdlib.c -DSOURCES="a.tile;b.tile" -P stdlib/embed.cmake
#
#   cmake -DOUTPUT=errors.c -DSOURCES=docs/errors.md -DTEXT=errors_text -P stdlib/embed.cmake
#
# With TEXT, the bytes of one file become `const char TEXT[]`, without a table.
#
# Bytes are written as numbers: string literals have a limit in C, arrays have none.
set(arrays "")
set(rows "")
set(count 0)
foreach(source IN LISTS SOURCES)
    get_filename_component(name "${source}" NAME_WE)
    file(READ "${source}" hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR bytes "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," data "${hex}")
    string(REGEX REPLACE "(0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],)"
           "\\1\n    " data "${data}")
    string(APPEND arrays "static const char ${name}_text[] = {\n    ${data}0};\n\n")
    string(APPEND rows "    {\"${name}\", ${name}_text, ${bytes}},\n")
    math(EXPR count "${count} + 1")
endforeach()
if(TEXT)
    string(REPLACE "static const char ${name}_text[]" "const char ${TEXT}[]" arrays "${arrays}")
    file(WRITE "${OUTPUT}" "/* Made by stdlib/embed.cmake. */\nextern const char ${TEXT}[];\n${arrays}")
    return()
endif()
file(WRITE "${OUTPUT}" "/* Made from the .tile files of stdlib by stdlib/embed.cmake. */
#include \"stdlib/stdlib.h\"

${arrays}const StdlibFile stdlib_files[] = {
${rows}};
const size_t stdlib_file_count = ${count};
")
