# The CUDA backend's compiler and run-time library; SPARGE_HAVE_CUDA says whether this build has the backend.
#
# CMAKE_CUDA_ARCHITECTURES chooses the GPUs that the build runs on: machine code only, nothing is compiled by the driver at
# run time. "native" stands for those of this machine.
set(SPARGE_CUDA AUTO CACHE STRING "Build the CUDA backend: ON, OFF, or AUTO, where nvcc is found")
set_property(CACHE SPARGE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CMAKE_CUDA_ARCHITECTURES "80-real;89-real;90a-real" CACHE STRING "GPU architectures with machine code in this build")

set(SPARGE_HAVE_CUDA ${SPARGE_CUDA})
if(SPARGE_CUDA STREQUAL "AUTO")
    include(CheckLanguage)
    check_language(CUDA)
    set(SPARGE_HAVE_CUDA OFF)
    if(CMAKE_CUDA_COMPILER)
        set(SPARGE_HAVE_CUDA ON)
    endif()
endif()

if(SPARGE_HAVE_CUDA)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
        if(NOT CMAKE_CUDA_ARCHITECTURES_NATIVE MATCHES "^[0-9]")
            message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES=native: this machine has no GPU; name architectures instead")
        endif()
        # wgmma and setmaxnreg are in sm_90a, which is what an sm_90 device is.
        string(REPLACE "90-real" "90a-real" CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
    endif()
    # The host code of .cu files needs nothing of the C++ run-time library (SpargeTargets.cmake), and cudart_static is named
    # where it is needed: the C compiler links every program.
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)
    set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
    set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")
    find_path(SPARGE_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    message(STATUS "CUDA backend: CUDA ${CUDAToolkit_VERSION}, ${CMAKE_CUDA_ARCHITECTURES}")
else()
    message(STATUS "CUDA backend: none")
endif()
