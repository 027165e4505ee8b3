# What `cmake --install` puts where, by component; scripts/package.sh makes packages of them.
#   launcher    ddprun, its manual pages (one for each command, too) and completions
#   trainer     ddprun-train as built: it finds libtorch where CMake has found it
#   portable-trainer    the same to be carried elsewhere: it finds libtorch by its own place alone
#   library     ddprun/trainer.h and what a program with a model of its own links (target ddprun_trainer)
#   portable-library    the same without the GPU plug-in, which portable-trainer has: 9.1 MB, 2.1 MB of a packed archive
#   documents   pages and examples
#   notices     the licence, NOTICE, and those of what is linked into ddprun
# The last five are installed only where they are asked for by name.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR})
set(doc ${share}/doc/ddprun)

# The version stands in one place: project() in CMakeLists.txt.
set(manual_pages ${PROJECT_BINARY_DIR}/man)
foreach(page ddprun.1 ddprun.toml.5 ddprun-train.1 ddprun-bench-comm.1)
  configure_file(docs/man/${page} ${manual_pages}/${page} @ONLY)
endforeach()

install(TARGETS ddprun RUNTIME COMPONENT launcher)
install(FILES ${manual_pages}/ddprun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT launcher)
install(FILES ${manual_pages}/ddprun.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT launcher)

# What is made while it is installed lies in a folder of that one installation: there may be two at once.
set(making "string(RANDOM LENGTH 16 made)
            set(made \"${PROJECT_BINARY_DIR}/installed-\${made}\")
            file(MAKE_DIRECTORY \"\${made}\")")
function(ddprun_install_completion shell folder name)
  install(CODE "${making}
                execute_process(COMMAND \"$<TARGET_FILE:ddprun>\" completion ${shell}
                                OUTPUT_FILE \"\${made}/${name}\" COMMAND_ERROR_IS_FATAL ANY)
                file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${share}/${folder}\" TYPE FILE
                     FILES \"\${made}/${name}\")
                file(REMOVE_RECURSE \"\${made}\")" COMPONENT launcher)
endfunction()
ddprun_install_completion(bash bash-completion/completions ddprun)
ddprun_install_completion(zsh zsh/site-functions _ddprun)
ddprun_install_completion(fish fish/vendor_completions.d ddprun.fish)
install(CODE "${making}
              execute_process(COMMAND \"${CMAKE_COMMAND}\" -E env \"DDPRUN=$<TARGET_FILE:ddprun>\" \"${Python3_EXECUTABLE}\" -B
                                      \"${PROJECT_SOURCE_DIR}/scripts/docs/verb_pages.py\" \"\${made}\" COMMAND_ERROR_IS_FATAL ANY)
              file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\" TYPE DIRECTORY
                   FILES \"\${made}/\")
              file(REMOVE_RECURSE \"\${made}\")" COMPONENT launcher)

install(FILES README.md DESTINATION ${doc} COMPONENT documents EXCLUDE_FROM_ALL)
install(DIRECTORY docs/ DESTINATION ${doc}/docs COMPONENT documents EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "man" EXCLUDE)
install(DIRECTORY examples DESTINATION ${doc} USE_SOURCE_PERMISSIONS COMPONENT documents
        EXCLUDE_FROM_ALL PATTERN "__pycache__" EXCLUDE)

install(FILES LICENSE NOTICE DESTINATION ${doc} COMPONENT notices EXCLUDE_FROM_ALL)
# Boost's licence asks for no notice beside a program.
set(linked libgrpc-dev libprotobuf-dev libabsl-dev libre2-dev libc-ares-dev libssl-dev zlib1g-dev
           libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libstdc++-12-dev)
install(CODE "${making}
  set(text \"Linked into ddprun, with the notices of Debian's packages.\n\")
  foreach(package ${linked})
    file(READ /usr/share/doc/\${package}/copyright notice)
    string(APPEND text \"\n==== \${package}\n\${notice}\")
  endforeach()
  file(WRITE \"\${made}/third-party.txt\" \"\${text}\")
  file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${doc}\" TYPE FILE FILES \"\${made}/third-party.txt\")
  file(REMOVE_RECURSE \"\${made}\")" COMPONENT notices EXCLUDE_FROM_ALL)

if(DDPRUN_WITH_TRAINER)
  foreach(kind "" portable-)
    set(component COMPONENT ${kind}trainer)
    if(kind)
      list(APPEND component EXCLUDE_FROM_ALL)
    endif()
    install(TARGETS ${kind}ddprun-train ${kind}ddprun-bench-comm RUNTIME ${component})
    install(FILES ${manual_pages}/ddprun-train.1 ${manual_pages}/ddprun-bench-comm.1
            DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 ${component})
    if(TARGET ddprun_cuda)
      install(TARGETS ${kind}ddprun_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR}/../lib/ddprun
              ${component})
    endif()
    install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ddprun DESTINATION ${share} ${component})
  endforeach()
endif()

if(DDPRUN_WITH_TRAINER)
  if(TARGET ddprun_cuda)
    install(TARGETS ddprun_cuda LIBRARY DESTINATION lib/ddprun COMPONENT library EXCLUDE_FROM_ALL)
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/package/ddprunBuiltWith.cmake
       "set(ddprun_VERSION ${PROJECT_VERSION})\nset(ddprun_LIBTORCH_VERSION ${DDPRUN_LIBTORCH_VERSION})\n")
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/ddprunConfigVersion.cmake
                                   COMPATIBILITY SameMajorVersion)
  foreach(component library portable-library)
    set(library COMPONENT ${component} EXCLUDE_FROM_ALL)
    install(TARGETS ddprun_trainer ARCHIVE DESTINATION lib ${library})
    install(FILES trainer/include/ddprun/trainer.h DESTINATION include/ddprun ${library})
    install(FILES cmake/package/ddprunConfig.cmake cmake/FindLibtorch.cmake
                  ${PROJECT_BINARY_DIR}/package/ddprunBuiltWith.cmake
                  ${PROJECT_BINARY_DIR}/package/ddprunConfigVersion.cmake
            DESTINATION lib/cmake/ddprun ${library})
  endforeach()
endif()

# All that scripts/package.sh packs.
set(with_all)
if(DDPRUN_TESTS)
  set(with_all ALL)  # Tests install it.
endif()
add_custom_target(packed ${with_all} DEPENDS ddprun)
if(DDPRUN_WITH_TRAINER)
  add_dependencies(packed portable-ddprun-train portable-ddprun-bench-comm ddprun_trainer)
  if(TARGET ddprun_cuda)
    add_dependencies(packed portable-ddprun_cuda)
  endif()
endif()
