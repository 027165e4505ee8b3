# Finds libtorch as PyPI's "torch" wheel lays it out (<root>/torch/include, <root>/torch/lib,
# <root>/nvidia/...), without the wheel's own TorchConfig.cmake: that one enables the CUDA language
# and fails both with and without a CUDA toolkit.
#
#   Libtorch_ROOT   site-packages directory or unpacked prefix; default: one of CMAKE_PREFIX_PATH (also as
#                   torch.utils.cmake_prefix_path, a directory in it), then the newest prefix that
#                   scripts/setup.sh made under the cache directory
#   Libtorch_CUDA_ROOT      another site-packages directory with libtorch_cuda of the very same
#                           version, where Libtorch_ROOT has none
#
# Gives the target Libtorch::cpu (headers as system headers, run path in the build tree), and
# Libtorch_VERSION, Libtorch_LIBRARY_DIR. Where the root holds libtorch_cuda and the headers of the
# CUDA runtime and NCCL (scripts/setup.sh --cuda, or any PyTorch for GPUs), also Libtorch::cuda;
# else Libtorch_CUDA_MISSING says what it lacks. Neither a CUDA compiler nor a toolkit is needed.
set(_libtorch_roots ${CMAKE_PREFIX_PATH})
list(TRANSFORM _libtorch_roots REPLACE "/torch/share/cmake/?$" "")
list(PREPEND _libtorch_roots ${Libtorch_ROOT} $ENV{Libtorch_ROOT})
if(DEFINED ENV{XDG_CACHE_HOME})
  set(_libtorch_cache $ENV{XDG_CACHE_HOME})
else()
  set(_libtorch_cache $ENV{HOME}/.cache)
endif()
file(GLOB _libtorch_prefixes LIST_DIRECTORIES true ${_libtorch_cache}/ddprun/libtorch-*)
list(SORT _libtorch_prefixes COMPARE NATURAL ORDER DESCENDING)

find_path(Libtorch_PREFIX NAMES torch/include/ATen/ATen.h
          PATHS ${_libtorch_roots} ${_libtorch_prefixes} NO_DEFAULT_PATH
          DOC "Directory that holds torch/include and torch/lib")
find_library(Libtorch_CPU_LIBRARY torch_cpu PATHS ${Libtorch_PREFIX}/torch/lib NO_DEFAULT_PATH)
find_library(Libtorch_C10_LIBRARY c10 PATHS ${Libtorch_PREFIX}/torch/lib NO_DEFAULT_PATH)
mark_as_advanced(Libtorch_PREFIX Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY)

# The number is in one of two headers, depending on the release.
foreach(_libtorch_header headeronly/version.h csrc/api/include/torch/version.h)
  set(_libtorch_header ${Libtorch_PREFIX}/torch/include/torch/${_libtorch_header})
  if(NOT Libtorch_VERSION AND EXISTS ${_libtorch_header})
    file(READ ${_libtorch_header} _libtorch_text)
    foreach(_libtorch_part MAJOR MINOR PATCH)
      if(_libtorch_text MATCHES "#define TORCH_VERSION_${_libtorch_part} ([0-9]+)")
        list(APPEND _libtorch_numbers ${CMAKE_MATCH_1})
      endif()
    endforeach()
    list(JOIN _libtorch_numbers "." Libtorch_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Libtorch
  REQUIRED_VARS Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY Libtorch_PREFIX
  VERSION_VAR Libtorch_VERSION
  REASON_FAILURE_MESSAGE "no torch/include and torch/lib under Libtorch_ROOT='${Libtorch_ROOT}'")

if(Libtorch_FOUND AND NOT TARGET Libtorch::cpu)
  get_filename_component(Libtorch_LIBRARY_DIR ${Libtorch_CPU_LIBRARY} DIRECTORY)
  add_library(Libtorch::c10 SHARED IMPORTED)
  set_target_properties(Libtorch::c10 PROPERTIES IMPORTED_LOCATION ${Libtorch_C10_LIBRARY})
  target_include_directories(
    Libtorch::c10 INTERFACE ${Libtorch_PREFIX}/torch/include
                            ${Libtorch_PREFIX}/torch/include/torch/csrc/api/include)
  # As the library itself was built: without these c10d's classes change their shape.
  target_compile_definitions(Libtorch::c10 INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # Its checks name their files: not those of the machine that built.
  target_compile_options(Libtorch::c10 INTERFACE -ffile-prefix-map=${Libtorch_PREFIX}/=)
  add_library(Libtorch::cpu SHARED IMPORTED)
  set_target_properties(Libtorch::cpu PROPERTIES IMPORTED_LOCATION ${Libtorch_CPU_LIBRARY})
  target_link_libraries(Libtorch::cpu INTERFACE Libtorch::c10)
endif()

# A libtorch_cuda works with the libtorch_cpu it was built with and no other.
set(_libtorch_cuda ${Libtorch_PREFIX})
if(Libtorch_CUDA_ROOT)
  set(_libtorch_cuda ${Libtorch_CUDA_ROOT})
endif()
set(_libtorch_same torch/include/torch/headeronly/version.h)
if(NOT EXISTS ${Libtorch_PREFIX}/${_libtorch_same})
  set(_libtorch_same torch/include/torch/csrc/api/include/torch/version.h)
endif()
if(EXISTS ${_libtorch_cuda}/${_libtorch_same})
  file(SHA256 ${Libtorch_PREFIX}/${_libtorch_same} _libtorch_one)
  file(SHA256 ${_libtorch_cuda}/${_libtorch_same} _libtorch_other)
endif()
# Both layouts of NVIDIA's wheels (CUDA 13's and the one before), what scripts/setup.sh --cuda adds
# to them, then a toolkit.
file(GLOB _libtorch_nvidia LIST_DIRECTORIES true ${_libtorch_cuda}/nvidia/cu[0-9]*/include)
file(GLOB _libtorch_added LIST_DIRECTORIES true
     ${_libtorch_cache}/ddprun/cuda-headers-*/nvidia/cu[0-9]*/include)
set(_libtorch_toolkit $ENV{CUDA_HOME}/include /usr/local/cuda/include)
set(_libtorch_headers ${_libtorch_nvidia} ${_libtorch_cuda}/nvidia/cuda_runtime/include
                      ${_libtorch_added} ${_libtorch_toolkit})
find_library(Libtorch_CUDA_LIBRARY torch_cuda PATHS ${_libtorch_cuda}/torch/lib NO_DEFAULT_PATH)
find_library(Libtorch_C10_CUDA_LIBRARY c10_cuda PATHS ${_libtorch_cuda}/torch/lib NO_DEFAULT_PATH)
find_path(Libtorch_CUDART_INCLUDE cuda_runtime_api.h PATHS ${_libtorch_headers} NO_DEFAULT_PATH)
find_path(Libtorch_CRT_INCLUDE crt/host_defines.h PATHS ${_libtorch_headers} NO_DEFAULT_PATH)
find_path(Libtorch_CCCL_INCLUDE nv/target PATHS ${_libtorch_headers} PATH_SUFFIXES . cccl
          NO_DEFAULT_PATH)
find_path(Libtorch_NCCL_INCLUDE nccl.h PATHS ${_libtorch_cuda}/nvidia/nccl/include
          ${_libtorch_toolkit} /usr/include NO_DEFAULT_PATH)
set(Libtorch_CUDA_MISSING)
foreach(_libtorch_part CUDA_LIBRARY:libtorch_cuda.so C10_CUDA_LIBRARY:libc10_cuda.so
                       CUDART_INCLUDE:cuda_runtime_api.h CRT_INCLUDE:crt/host_defines.h
                       CCCL_INCLUDE:nv/target NCCL_INCLUDE:nccl.h)
  string(REPLACE ":" ";" _libtorch_part ${_libtorch_part})
  list(GET _libtorch_part 0 _libtorch_variable)
  list(GET _libtorch_part 1 _libtorch_name)
  mark_as_advanced(Libtorch_${_libtorch_variable})
  if(NOT Libtorch_${_libtorch_variable})
    list(APPEND Libtorch_CUDA_MISSING ${_libtorch_name})
  endif()
endforeach()
if(NOT _libtorch_one OR NOT _libtorch_one STREQUAL _libtorch_other)
  list(APPEND Libtorch_CUDA_MISSING "the version of ${Libtorch_PREFIX}")
endif()
list(JOIN Libtorch_CUDA_MISSING ", " Libtorch_CUDA_MISSING)

if(Libtorch_FOUND AND NOT Libtorch_CUDA_MISSING AND NOT TARGET Libtorch::cuda)
  add_library(Libtorch::c10_cuda SHARED IMPORTED)
  set_target_properties(Libtorch::c10_cuda PROPERTIES
    IMPORTED_LOCATION ${Libtorch_C10_CUDA_LIBRARY})
  add_library(Libtorch::cuda SHARED IMPORTED)
  set_target_properties(Libtorch::cuda PROPERTIES IMPORTED_LOCATION ${Libtorch_CUDA_LIBRARY})
  target_include_directories(Libtorch::cuda INTERFACE ${Libtorch_NCCL_INCLUDE}
                                                      ${Libtorch_CUDART_INCLUDE})
  # The older layout has a folder for each library.
  file(GLOB _libtorch_each LIST_DIRECTORIES true ${_libtorch_cuda}/nvidia/cu[a-z]*/include)
  target_include_directories(Libtorch::cuda INTERFACE ${_libtorch_each})
  # Last, lest another version's headers hide those above.
  foreach(_libtorch_part ${Libtorch_CRT_INCLUDE} ${Libtorch_CCCL_INCLUDE})
    target_compile_options(Libtorch::cuda INTERFACE "SHELL:-idirafter ${_libtorch_part}")
  endforeach()
  target_compile_definitions(Libtorch::cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(Libtorch::cuda INTERFACE Libtorch::c10_cuda Libtorch::cpu)
endif()
