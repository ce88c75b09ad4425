# cmake -DLIST=veneer_isas -DISA=avx2 -DPROGRAM=… -DCASES=a*,b* -P forced_isa.cmake: the cases of a test program under an instruction set
# that runs here. Not under the best one, which all runs without VENEER_FORCE_ISA are under.
execute_process(COMMAND ${LIST} OUTPUT_VARIABLE isas OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" isas "${isas}")
list(FIND isas ${ISA} place)
if(place EQUAL -1)
  message("SKIP: ${ISA} cannot run here, so nothing ran under it")
elseif(place EQUAL 0)
  message("SKIP: ${ISA} is the best that runs here, so every other run is under it")
else()
  set(ENV{VENEER_FORCE_ISA} ${ISA})
  execute_process(COMMAND ${PROGRAM} ${CASES} COMMAND_ERROR_IS_FATAL ANY)
endif()
