# Writes the header that says what this build is: run by every build (harness/CMakeLists.txt), touched only if it changes.
#
#   cmake -DSOURCE_DIR=... -DOUTPUT=... -DBUILD_TYPE=... -DCOMPILER=... -DFLAGS=... -P BuildInfo.cmake
#
# The commit comes from git, or where there is no repository (a release tarball) from the environment: SPARGE_GIT_SHA.
set(sha "$ENV{SPARGE_GIT_SHA}")
set(dirty -1)
find_program(GIT git)
if(GIT AND sha STREQUAL "")
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse HEAD OUTPUT_VARIABLE sha ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT sha STREQUAL "")
        execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} status --porcelain --untracked-files=no
                        OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE failed)
        if(NOT failed AND changes STREQUAL "")
            set(dirty 0)
        elseif(NOT failed)
            set(dirty 1)
        endif()
    endif()
endif()

function(quote variable)
    string(REPLACE "\\" "\\\\" text "${${variable}}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(STRIP "${text}" text)
    set(${variable} "\"${text}\"" PARENT_SCOPE)
endfunction()
quote(sha)
quote(BUILD_TYPE)
quote(COMPILER)
quote(FLAGS)

set(text "/* Made by cmake/BuildInfo.cmake. */
#define SB_BUILD_GIT_SHA ${sha}
#define SB_BUILD_GIT_DIRTY (${dirty})
#define SB_BUILD_TYPE ${BUILD_TYPE}
#define SB_BUILD_COMPILER ${COMPILER}
#define SB_BUILD_FLAGS ${FLAGS}
")
set(before "")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
endif()
