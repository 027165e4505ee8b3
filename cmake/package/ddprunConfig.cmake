# find_package(ddprun COMPONENTS trainer): the target ddprun::trainer, for programs with a model of their
# own (ddprun/trainer.h). It needs libtorch, found as FindLibtorch.cmake says (-DLibtorch_ROOT=...) or in
# lib/ddprun beside it: the very version that the library was built with.
if(NOT TARGET ddprun::trainer)  # It is built in the same tree.
  include(CMakeFindDependencyMacro)
  get_filename_component(_ddprun_prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
  list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_dependency(Threads)
  find_dependency(ZLIB)
  list(APPEND CMAKE_PREFIX_PATH ${_ddprun_prefix}/lib/ddprun)
  find_dependency(Libtorch)
  list(POP_BACK CMAKE_PREFIX_PATH)
  list(POP_FRONT CMAKE_MODULE_PATH)
  include(${CMAKE_CURRENT_LIST_DIR}/ddprunBuiltWith.cmake)
  if(NOT Libtorch_VERSION VERSION_EQUAL ddprun_LIBTORCH_VERSION)
    set(ddprun_FOUND FALSE)
    set(ddprun_NOT_FOUND_MESSAGE
        "ddprun's trainer was built with libtorch ${ddprun_LIBTORCH_VERSION}, and libtorch \
${Libtorch_VERSION} was found. Set Libtorch_ROOT to a directory that holds the former")
    return()
  endif()
  add_library(ddprun::trainer STATIC IMPORTED)
  set_target_properties(ddprun::trainer PROPERTIES
    IMPORTED_LOCATION ${_ddprun_prefix}/lib/libddprun_trainer.a
    INTERFACE_INCLUDE_DIRECTORIES ${_ddprun_prefix}/include
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_LINK_OPTIONS "LINKER:-rpath,${_ddprun_prefix}/lib/ddprun"  # Of the GPU plug-in.
    INTERFACE_LINK_LIBRARIES "Libtorch::cpu;ZLIB::ZLIB;Threads::Threads;${CMAKE_DL_LIBS};gcc")
endif()
foreach(_ddprun_component ${ddprun_FIND_COMPONENTS})
  if(NOT _ddprun_component STREQUAL "trainer")
    set(ddprun_FOUND FALSE)
    set(ddprun_NOT_FOUND_MESSAGE "ddprun has one component, trainer, not ${_ddprun_component}")
  endif()
endforeach()
