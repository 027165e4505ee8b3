# Finds libtorch as PyPI's "torch" wheel lays it out (<root>/torch/include, <root>/torch/lib,
# <root>/nvidia/...), without the wheel's own TorchConfig.cmake: that one enables the CUDA language
# and fails both with and without a CUDA toolkit.
#
#   Libtorch_ROOT   site-packages directory or unpacked prefix; default: the newest prefix that
#                   scripts/setup.sh made under the cache directory
#
# Gives the target Libtorch::cpu (headers as system headers, run path in the build tree), and
# Libtorch_VERSION, Libtorch_LIBRARY_DIR.
set(_libtorch_roots ${Libtorch_ROOT} $ENV{Libtorch_ROOT})
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
  add_library(Libtorch::cpu SHARED IMPORTED)
  set_target_properties(Libtorch::cpu PROPERTIES IMPORTED_LOCATION ${Libtorch_CPU_LIBRARY})
  target_link_libraries(Libtorch::cpu INTERFACE Libtorch::c10)
endif()
