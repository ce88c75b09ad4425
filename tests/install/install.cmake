# cmake -DBUILD=… -DWORK=… -DCONFIG=… -P install.cmake: makes the trees tests/install/CMakeLists.txt speaks of.
function(install_into prefix)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --config ${CONFIG} ${ARGN}
                  COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
file(REMOVE_RECURSE ${WORK})
install_into(${WORK}/sdk --component sdk)
install_into(${WORK}/parts --component sdk)
install_into(${WORK}/parts --component core)
install_into(${WORK}/elsewhere)
file(RENAME ${WORK}/elsewhere ${WORK}/whole)
