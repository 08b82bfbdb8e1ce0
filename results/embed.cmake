# cmake -DOUT=FILE -DSCHEMA=FOLDER -P embed.cmake: writes the migrations as a C table (rs_migrations in internal.h).
# Bytes instead of string literals: C11 promises literals of 4095 characters only.
set(arrays "")
set(table "")
set(count 0)
file(GLOB migrations ${SCHEMA}/*.sql) # sorted by name
foreach(path IN LISTS migrations)
    get_filename_component(name ${path} NAME)
    math(EXPR count "${count} + 1")
    string(REGEX MATCH "^0*([0-9]+)_" match ${name})
    if(NOT CMAKE_MATCH_1 EQUAL count)
        message(FATAL_ERROR "results/schema: ${name} should be migration number ${count}")
    endif()
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1, " bytes "${hex}")
    string(APPEND arrays "static const char sql_${count}[] = {${bytes}0x00};\n")
    string(APPEND table "    {\"${name}\", sql_${count}},\n")
endforeach()
file(WRITE ${OUT} "/* Made by results/embed.cmake from results/schema. */
#include \"internal.h\"

${arrays}
const rs_migration rs_migrations[] = {
${table}};
const int rs_migration_count = ${count};
")
