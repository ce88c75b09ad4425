veneer_add_fuzzer(json LINK veneer::format)
veneer_add_fuzzer(safetensors LINK veneer::format)
