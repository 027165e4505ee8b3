# Pages of docs/ as a header in the build folder: what `ddprun help SLUG` and `ddprun help TOPIC`
# print.
function(embed_pages variable)
  set(pages "")
  foreach(page ${ARGN})
    set(file ${PROJECT_SOURCE_DIR}/docs/${page}.md)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(APPEND pages "    {\"${page}\", R\"PAGE(${text})PAGE\"},\n")
  endforeach()
  set(${variable} "${pages}" PARENT_SCOPE)
endfunction()

embed_pages(message_pages troubleshooting messages-of-failures messages-of-training)
embed_pages(topic_pages hosts node-checks pool slurm watching writing-a-worker)
configure_file(${CMAKE_CURRENT_LIST_DIR}/message_pages.h.in
               ${PROJECT_BINARY_DIR}/generated/launcher/command_line/message_pages.h @ONLY)
