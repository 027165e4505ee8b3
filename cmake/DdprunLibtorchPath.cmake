# Where the trainer's binaries look for libtorch when they are started.
#
# As built, where CMake has found it. A second link of the same objects, target portable-NAME, is for
# packages: it names no place of the machine that built it, and looks by its own place, in this order,
# in PREFIX/lib/ddprun/torch/lib (libtorch beside it), then in the torch wheel of the Python whose
# prefix it was installed into. No entry may be empty: that is the working directory.

# ddprun_finds_libtorch(TARGET LIB DIRECTORY)
#   LIB         the prefix's lib folder as seen from where the binary is installed, e.g. $ORIGIN/../lib;
#               LIB/ddprun may hold the GPU plug-in
#   DIRECTORY   where CMake has found libtorch
function(ddprun_finds_libtorch target lib directory)
  ddprun_beside_libtorch(${target})
  set(places ${lib}/ddprun ${lib}/ddprun/torch/lib)
  foreach(minor RANGE 10 15)
    foreach(packages site-packages dist-packages)
      list(APPEND places ${lib}/python3.${minor}/${packages}/torch/lib)
    endforeach()
  endforeach()
  # Linked with the path that is installed: one that CMake would change while it installs is padded
  # with empty entries.
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${lib}/ddprun;${directory}")

  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    add_executable(portable-${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}>)
  else()
    add_library(portable-${target} MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}>)
  endif()
  get_target_property(libraries ${target} LINK_LIBRARIES)
  target_link_libraries(portable-${target} PRIVATE ${libraries})
  set_target_properties(portable-${target} PROPERTIES
    OUTPUT_NAME ${target} LINKER_LANGUAGE CXX
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable/bin
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable/lib/ddprun
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${places}")
endfunction()
