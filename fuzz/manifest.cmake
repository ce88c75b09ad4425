veneer_add_fuzzer(manifest LINK veneer::manifest)
veneer_add_fuzzer(composition LINK veneer::manifest)
veneer_add_fuzzer(base_list LINK veneer::manifest)
