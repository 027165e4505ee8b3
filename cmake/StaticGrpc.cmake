# ddprun::grpc_static: gRPC C++ (with TLS), Protobuf and all they need, from Debian's archives.
#
# Linked statically because the launcher's start is on every user's path: dozens of shared
# libraries fewer to load, and one binary that runs where gRPC's run-time packages are missing.
# Compile against Debian's headers as usual; link this target instead of gRPC::grpc++, and never
# both, or the process holds two copies of Protobuf's registry.
find_package(Threads REQUIRED)

function(ddprun_find_archive result name package)
  find_library(DDPRUN_ARCHIVE_${name} NAMES lib${name}.a)
  if(NOT DDPRUN_ARCHIVE_${name})
    message(FATAL_ERROR "lib${name}.a not found: install ${package}, or run scripts/setup.sh")
  endif()
  mark_as_advanced(DDPRUN_ARCHIVE_${name})
  set(${result} ${DDPRUN_ARCHIVE_${name}} PARENT_SCOPE)
endfunction()

function(ddprun_add_grpc_static)
  foreach(entry
      grpc++=libgrpc++-dev grpc=libgrpc-dev gpr=libgrpc-dev address_sorting=libgrpc-dev
      upb=libgrpc-dev cares=libc-ares-dev re2=libre2-dev protobuf=libprotobuf-dev
      ssl=libssl-dev crypto=libssl-dev z=zlib1g-dev)
    string(REGEX MATCH "^([^=]+)=(.+)$" matched ${entry})
    ddprun_find_archive(archive ${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    list(APPEND archives ${archive})
  endforeach()
  # Abseil is some sixty small archives that need each other; the linker takes what is used.
  ddprun_find_archive(absl_base absl_base libabsl-dev)
  cmake_path(GET absl_base PARENT_PATH absl_folder)
  file(GLOB absl_archives CONFIGURE_DEPENDS ${absl_folder}/libabsl_*.a)

  list(JOIN archives "," group)
  list(JOIN absl_archives "," absl_group)

  add_library(ddprun_grpc_static INTERFACE)
  # RESCAN: the archives need each other in circles.
  target_link_libraries(ddprun_grpc_static INTERFACE
    "$<LINK_GROUP:RESCAN,${group},${absl_group}>" ${CMAKE_DL_LIBS} Threads::Threads)
  target_link_options(ddprun_grpc_static INTERFACE -Wl,--gc-sections)
  add_library(ddprun::grpc_static ALIAS ddprun_grpc_static)
endfunction()

if(NOT TARGET ddprun::grpc_static)
  ddprun_add_grpc_static()
endif()
