veneer_add_fuzzer(card LINK veneer::plugin)
veneer_add_fuzzer(peft_config LINK veneer::adapter veneer_static_plugins)
target_sources(fuzz_peft_config PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/tiny_gguf.cc)
target_include_directories(fuzz_peft_config PRIVATE ${PROJECT_SOURCE_DIR})
