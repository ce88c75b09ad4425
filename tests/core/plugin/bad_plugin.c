/* Plugins that must be refused, one a macro. */
#include <stdlib.h>

#include "veneer/abi.h"

#if defined(BAD_FLOAT_ENVIRONMENT) /* what -ffast-math links in: flush to zero for the loading thread */
#include <xmmintrin.h>
__attribute__((constructor)) static void Change(void) { _mm_setcsr(_mm_getcsr() | 0x8040u); }
#endif

#if defined(BAD_CONSTRUCTOR) /* nobody may run this */
__attribute__((constructor)) static void Die(void) { abort(); }
#endif

#if defined(BAD_UNDEFINED)
int veneer_test_symbol_that_nobody_defines(void);
int UsesIt(void);
int UsesIt(void) { return veneer_test_symbol_that_nobody_defines(); }
#endif

static const vnr_kind* const kNoKinds[] = {NULL};

#if defined(BAD_NO_ENTRY)
int SomethingElse(void);
int SomethingElse(void) { return kNoKinds[0] == NULL; }
#elif defined(BAD_FUNCTION) /* the right name on a function */
#define veneer_overlay_entry_v1 declared_in_header
#undef veneer_overlay_entry_v1
int EntryFunction(void) __asm__("veneer_overlay_entry_v1");
int EntryFunction(void) { return kNoKinds[0] == NULL; }
#elif defined(BAD_MAJOR)
const vnr_entry veneer_overlay_entry_v1 = {sizeof(vnr_entry), VNR_ABI_MAJOR + 1, 0, 0, "bad", "1", "", kNoKinds, 1, 0};
#elif defined(BAD_MINOR)
const vnr_entry veneer_overlay_entry_v1 = {sizeof(vnr_entry), VNR_ABI_MAJOR, VNR_ABI_MINOR + 1, VNR_ABI_MINOR + 1, "bad", "1", "", kNoKinds, 1, 0};
#elif defined(BAD_SIZE)
const vnr_entry veneer_overlay_entry_v1 = {sizeof(vnr_entry) - 8, VNR_ABI_MAJOR, VNR_ABI_MINOR, 0, "bad", "1", "", kNoKinds, 1, 0};
#else
const vnr_entry veneer_overlay_entry_v1 = {sizeof(vnr_entry), VNR_ABI_MAJOR, VNR_ABI_MINOR, 0, "bad", "1", "", kNoKinds, 1, 0};
#endif
