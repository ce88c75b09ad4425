veneer_add_fuzzer(current LINK veneer::store)
veneer_add_fuzzer(audit LINK veneer::store)
