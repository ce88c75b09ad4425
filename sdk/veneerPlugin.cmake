# Building overlay plugins, in this project and in others (find_package(veneer COMPONENTS sdk) includes it):
#
#   add_library(example-scale MODULE scale.cc)
#   target_link_libraries(example-scale PRIVATE veneer::sdk)
#   veneer_overlay_plugin(example-scale)  # example-scale.so, and example-scale.veneer.json beside it
#
# Install the two files side by side and unchanged: the card holds the library's SHA-256, so a library that install(TARGETS) or strip has
# touched is refused. ${veneer_PLUGIN_DIR} is where the installed program searches.

# Compiler and linker flags of a plugin that is loaded: exports.map lets one symbol out, everything must resolve at load time.
function(veneer_harden_plugin target)
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map)
  # -fno-ivopts: g++ 12 drops calls of some loops that only store.
  target_compile_options(${target} PRIVATE -ffp-contract=off $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique> $<$<CXX_COMPILER_ID:GNU>:-fno-ivopts>)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map}
                      LINKER:-z,now,-z,relro,-z,noexecstack LINKER:--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES PREFIX "" LINK_DEPENDS ${map} SKIP_BUILD_RPATH ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(NOT VENEER_SANITIZE)  # clang leaves the sanitizer runtime undefined in modules
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()

# Writes NAME.veneer.json beside NAME.so after each link: what the plugin declares, as data, so that listing and validating run no plugin code.
function(veneer_write_card target)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND veneer::card $<TARGET_FILE:${target}> $<TARGET_FILE_DIR:${target}>/$<TARGET_FILE_BASE_NAME:${target}>.veneer.json
    COMMENT "Writing the card of ${target}" VERBATIM)
  if(TARGET veneer-card)  # inside the project itself
    add_dependencies(${target} veneer-card)
  endif()
endfunction()

function(veneer_overlay_plugin target)
  veneer_harden_plugin(${target})
  veneer_write_card(${target})
endfunction()
