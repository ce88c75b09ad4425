veneer_add_fuzzer(gguf LINK veneer::model)
veneer_add_fuzzer(tokenizer LINK veneer::model)
target_sources(fuzz_tokenizer PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/tiny_gguf.cc)
target_include_directories(fuzz_tokenizer PRIVATE ${PROJECT_SOURCE_DIR})
