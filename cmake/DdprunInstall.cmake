# What `cmake --install` puts where: binaries, the trainer's data, manual pages, shell completions.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR})

install(TARGETS ddprun RUNTIME COMPONENT launcher)
install(FILES docs/man/ddprun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT launcher)
install(FILES docs/man/ddprun.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT launcher)

set(completions ${CMAKE_BINARY_DIR}/completions)
foreach(shell bash zsh fish)
  install(CODE "file(MAKE_DIRECTORY ${completions})
                execute_process(COMMAND $<TARGET_FILE:ddprun> completion ${shell}
                                OUTPUT_FILE ${completions}/${shell} COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT launcher)
endforeach()
install(FILES ${completions}/bash DESTINATION ${share}/bash-completion/completions RENAME ddprun
        COMPONENT launcher)
install(FILES ${completions}/zsh DESTINATION ${share}/zsh/site-functions RENAME _ddprun
        COMPONENT launcher)
install(FILES ${completions}/fish DESTINATION ${share}/fish/vendor_completions.d RENAME ddprun.fish
        COMPONENT launcher)

if(DDPRUN_WITH_TRAINER)
  install(TARGETS ddprun-train ddprun-bench-comm RUNTIME COMPONENT trainer)
  install(FILES docs/man/ddprun-train.1 docs/man/ddprun-bench-comm.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT trainer)
  if(TARGET ddprun_cuda)
    install(TARGETS ddprun_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR}/../lib/ddprun
            COMPONENT trainer)
  endif()
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ddprun DESTINATION ${share} COMPONENT trainer)
endif()
