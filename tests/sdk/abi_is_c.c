/* The contract compiles as C11 with -pedantic -Wall -Wextra -Werror, alone and with the import declarations. */
#include "veneer/abi.h"
#include "veneer/import.h"

/* A complete kind can be written in C: constants in every field, symbolic dimensions included. */
static const vnr_role role_a = {sizeof(vnr_role), VNR_ROLE_ON_LINEAR, 2, VNR_BIT(VNR_F32), {VNR_DIM('r'), VNR_DIM_IN, 0, 0}, "A"};
static const vnr_role* const roles[] = {&role_a};
extern const uint64_t abi_sizes_in_c[];
const uint64_t abi_sizes_in_c[] = {sizeof(vnr_bytes),        sizeof(vnr_err),
                                   sizeof(vnr_sink),         sizeof(vnr_tensor),
                                   sizeof(vnr_role),         sizeof(vnr_param),
                                   sizeof(vnr_source),       sizeof(vnr_site),
                                   sizeof(vnr_host),         sizeof(vnr_base_rows),
                                   sizeof(vnr_limits),       sizeof(vnr_cost),
                                   sizeof(vnr_program),      sizeof(vnr_io),
                                   sizeof(vnr_kind),         sizeof(vnr_entry),
                                   sizeof(vnr_import_rule),  sizeof(vnr_import_tensor),
                                   sizeof(vnr_import_scale), sizeof(vnr_import_param),
                                   sizeof(vnr_import),       sizeof(vnr_import_gguf_tensor),
                                   sizeof(vnr_import_gguf)};
extern uint32_t abi_first_role_rank_in_c(void);
uint32_t abi_first_role_rank_in_c(void) { return VNR_HAS(roles[0], vnr_role, name) ? roles[0]->rank : 0; }
