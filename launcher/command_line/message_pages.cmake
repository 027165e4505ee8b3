# Pages that explain messages, as a header in the build folder: what `ddprun help SLUG` prints.
foreach(page troubleshooting messages-of-failures messages-of-training)
  set(file ${PROJECT_SOURCE_DIR}/docs/${page}.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  string(MAKE_C_IDENTIFIER ${page} name)
  file(READ ${file} ${name})
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/message_pages.h.in
               ${PROJECT_BINARY_DIR}/generated/launcher/command_line/message_pages.h @ONLY)
