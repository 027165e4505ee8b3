# ddprun_portable(TARGET): a program that needs nothing but glibc 2.34 or newer (manylinux_2_34): the
# compiler's runtime is linked into it, with what Debian's wants of a newer glibc (common/older_glibc.cc).
# gRPC (StaticGrpc.cmake), Boost, spdlog and fmt are so for everybody. tests/integration/run_path_test.py
# reads what came of it.
set(Boost_USE_STATIC_LIBS ON)

add_library(ddprun_older_glibc OBJECT ${PROJECT_SOURCE_DIR}/common/older_glibc.cc)

function(ddprun_portable target)
  if(DDPRUN_SANITIZE)  # Their runtimes are shared with what they watch.
    return()
  endif()
  target_link_libraries(${target} PRIVATE ddprun_older_glibc)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
endfunction()

# ddprun_beside_libtorch(TARGET): shares libstdc++ with libtorch, which brings none: what it needs of it is
# in GCC 11's (GLIBCXX_3.4.29). scripts/package/check_wheel.py reads the symbols.
add_library(ddprun_older_libstdcxx OBJECT ${PROJECT_SOURCE_DIR}/common/older_libstdcxx.cc)

function(ddprun_beside_libtorch target)
  if(DDPRUN_SANITIZE)
    return()
  endif()
  target_link_libraries(${target} PRIVATE ddprun_older_libstdcxx)
endfunction()
