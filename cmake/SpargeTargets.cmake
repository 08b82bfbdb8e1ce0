# Compile settings that every target of this project shares.
#
# sparge_settings(<target>): C11, the warning set, no contraction of a*b+c (the same numbers everywhere, design.md 4.1)
# and the sanitizers asked for with SPARGE_SANITIZE. CUDA files are C++17; their host code does without exceptions, RTTI and
# guarded statics, so that nothing needs libstdc++. (The guards would be those of nvcc's launch stubs, which cache a handle
# that is the same for every thread.)
function(sparge_settings target)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
                          CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
                          POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE C)
    target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE _FILE_OFFSET_BITS=64)
    set(c -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-declarations -Wundef -Wformat=2
        -ffp-contract=off)
    # 128, "loop is not reachable": what follows a return under if constexpr.
    set(cuda -Xcompiler=-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics -diag-suppress=128)
    if(SPARGE_WERROR)
        list(APPEND c -Werror)
        list(APPEND cuda -Werror=all-warnings)
    endif()
    if(SPARGE_SANITIZE)
        list(APPEND c -fsanitize=${SPARGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
        target_link_options(${target} PRIVATE -fsanitize=${SPARGE_SANITIZE})
    endif()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C>:${c}>" "$<$<COMPILE_LANGUAGE:CUDA>:${cuda}>")
endfunction()
