# Libraries from the distribution, linked statically so that the program runs on any newer Linux (design.md 4.1).
#
# sparge::sqlite, sparge::jansson, sparge::openmp.
function(sparge_static_library name header library)
    find_path(SPARGE_${name}_INCLUDE ${header})
    find_library(SPARGE_${name}_LIBRARY lib${library}.a)
    if(NOT SPARGE_${name}_INCLUDE OR NOT SPARGE_${name}_LIBRARY)
        message(FATAL_ERROR "${header} or lib${library}.a is missing (Debian, Ubuntu: lib${library}-dev); "
                            "./bootstrap installs what is needed")
    endif()
    add_library(sparge::${name} STATIC IMPORTED GLOBAL)
    set_target_properties(sparge::${name} PROPERTIES IMPORTED_LOCATION ${SPARGE_${name}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${SPARGE_${name}_INCLUDE})
    mark_as_advanced(SPARGE_${name}_INCLUDE SPARGE_${name}_LIBRARY)
endfunction()

sparge_static_library(sqlite sqlite3.h sqlite3)
sparge_static_library(jansson jansson.h jansson)

find_package(Threads REQUIRED)
set_property(TARGET sparge::sqlite APPEND PROPERTY INTERFACE_LINK_LIBRARIES m Threads::Threads ${CMAKE_DL_LIBS})

# libgomp.a lies in the compiler's own folder; clang uses the shared libomp of its installation instead.
find_package(OpenMP REQUIRED COMPONENTS C)
add_library(sparge_openmp INTERFACE)
add_library(sparge::openmp ALIAS sparge_openmp)
target_compile_options(sparge_openmp INTERFACE ${OpenMP_C_FLAGS})
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE SPARGE_GOMP
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    target_link_libraries(sparge_openmp INTERFACE ${SPARGE_GOMP} Threads::Threads ${CMAKE_DL_LIBS})
else()
    target_link_libraries(sparge_openmp INTERFACE OpenMP::OpenMP_C)
endif()
