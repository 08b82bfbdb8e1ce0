# Compile settings that every target of this project shares.
#
# sparge_settings(<target>): C11, the warning set, no contraction of a*b+c (the same numbers everywhere, design.md 4.1)
# and the sanitizers asked for with SPARGE_SANITIZE.
function(sparge_settings target)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
                          POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE _FILE_OFFSET_BITS=64)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes
                           -Wmissing-declarations -Wundef -Wformat=2 -ffp-contract=off)
    if(SPARGE_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(SPARGE_SANITIZE)
        target_compile_options(${target} PRIVATE -fsanitize=${SPARGE_SANITIZE} -fno-omit-frame-pointer
                               -fno-sanitize-recover=all -g)
        target_link_options(${target} PRIVATE -fsanitize=${SPARGE_SANITIZE})
    endif()
endfunction()
