# cmake -DNM=… "-DOBJECTS=a.o;b.o" -P weak_symbols.cmake: fails when an object defines a symbol that the linker may share with other
# objects (weak or unique). In an ISA object such a copy could replace the baseline one and run on a processor without the ISA.
if(NOT OBJECTS)
  message(FATAL_ERROR "no ISA objects given")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]*" shared "${symbols}")
  if(shared)
    message(SEND_ERROR "${object}: ${shared}")
  endif()
endforeach()
