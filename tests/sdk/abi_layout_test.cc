// The frozen layout of ABI 1 on LP64: size and offset of every field, no tail padding. Figures: computed from the declarations by the rule
// "each member at the next multiple of its alignment", not by this compiler. A change here is a change of the ABI.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "tests/support/catch.h"
#include "veneer/abi.h"
#include "veneer/import.h"

extern "C" {
extern const std::uint64_t abi_sizes_in_c[];
std::uint32_t abi_first_role_rank_in_c(void);
}

namespace {

struct Place {
  const char* name;
  std::uint64_t found, frozen;
};

#define VENEER_AT(type, field, frozen) {#type "." #field, offsetof(type, field), frozen}
#define VENEER_SIZE(type, frozen) {#type, sizeof(type), frozen}

constexpr Place kOffsets[] = {
    VENEER_AT(vnr_bytes, data, 0),
    VENEER_AT(vnr_bytes, size, 8),
    VENEER_AT(vnr_err, struct_size, 0),
    VENEER_AT(vnr_err, code, 4),
    VENEER_AT(vnr_err, capacity, 8),
    VENEER_AT(vnr_err, length, 12),
    VENEER_AT(vnr_err, text, 16),
    VENEER_AT(vnr_sink, ctx, 0),
    VENEER_AT(vnr_sink, write, 8),
    VENEER_AT(vnr_tensor, struct_size, 0),
    VENEER_AT(vnr_tensor, dtype, 4),
    VENEER_AT(vnr_tensor, rank, 8),
    VENEER_AT(vnr_tensor, flags, 12),
    VENEER_AT(vnr_tensor, dims, 16),
    VENEER_AT(vnr_tensor, data, 48),
    VENEER_AT(vnr_tensor, nbytes, 56),
    VENEER_AT(vnr_role, struct_size, 0),
    VENEER_AT(vnr_role, flags, 4),
    VENEER_AT(vnr_role, rank, 8),
    VENEER_AT(vnr_role, dtype_mask, 12),
    VENEER_AT(vnr_role, dims, 16),
    VENEER_AT(vnr_role, name, 32),
    VENEER_AT(vnr_param, struct_size, 0),
    VENEER_AT(vnr_param, type, 4),
    VENEER_AT(vnr_param, path, 8),
    VENEER_AT(vnr_param, i, 16),
    VENEER_AT(vnr_param, d, 24),
    VENEER_AT(vnr_param, s, 32),
    VENEER_AT(vnr_source, struct_size, 0),
    VENEER_AT(vnr_source, n_tensors, 4),
    VENEER_AT(vnr_source, n_params, 8),
    VENEER_AT(vnr_source, reserved, 12),
    VENEER_AT(vnr_source, roles, 16),
    VENEER_AT(vnr_source, tensors, 24),
    VENEER_AT(vnr_source, params, 32),
    VENEER_AT(vnr_site, struct_size, 0),
    VENEER_AT(vnr_site, index, 4),
    VENEER_AT(vnr_site, shape_class, 8),
    VENEER_AT(vnr_site, flags, 12),
    VENEER_AT(vnr_site, id, 16),
    VENEER_AT(vnr_site, out, 24),
    VENEER_AT(vnr_site, in, 32),
    VENEER_AT(vnr_site, layer, 40),
    VENEER_AT(vnr_site, expert, 44),
    VENEER_AT(vnr_site, storage_group, 48),
    VENEER_AT(vnr_site, base_dtype, 52),
    VENEER_AT(vnr_host, struct_size, 0),
    VENEER_AT(vnr_host, abi_minor, 4),
    VENEER_AT(vnr_host, ctx, 8),
    VENEER_AT(vnr_host, get_extension, 16),
    VENEER_AT(vnr_host, alloc, 24),
    VENEER_AT(vnr_host, free, 32),
    VENEER_AT(vnr_host, log, 40),
    VENEER_AT(vnr_host, cancelled, 48),
    VENEER_AT(vnr_host, parallel_for, 56),
    VENEER_AT(vnr_host, cpu_features, 64),
    VENEER_AT(vnr_base_rows, struct_size, 0),
    VENEER_AT(vnr_base_rows, reserved, 4),
    VENEER_AT(vnr_base_rows, ctx, 8),
    VENEER_AT(vnr_base_rows, read, 16),
    VENEER_AT(vnr_limits, struct_size, 0),
    VENEER_AT(vnr_limits, max_threads, 4),
    VENEER_AT(vnr_limits, max_token_block, 8),
    VENEER_AT(vnr_limits, min_det, 12),
    VENEER_AT(vnr_limits, budget_bytes, 16),
    VENEER_AT(vnr_cost, struct_size, 0),
    VENEER_AT(vnr_cost, reserved, 4),
    VENEER_AT(vnr_cost, shared_bytes, 8),
    VENEER_AT(vnr_cost, resident_bytes, 16),
    VENEER_AT(vnr_cost, stage_peak_bytes, 24),
    VENEER_AT(vnr_cost, opaque_bytes, 32),
    VENEER_AT(vnr_program, struct_size, 0),
    VENEER_AT(vnr_program, flags, 4),
    VENEER_AT(vnr_program, det_level, 8),
    VENEER_AT(vnr_program, lane_quantum, 12),
    VENEER_AT(vnr_program, token_block_max, 16),
    VENEER_AT(vnr_program, transform_unit, 20),
    VENEER_AT(vnr_program, prepare_units, 24),
    VENEER_AT(vnr_program, amplification, 28),
    VENEER_AT(vnr_program, prepared_bytes_per_token, 32),
    VENEER_AT(vnr_program, thread_scratch_bytes, 40),
    VENEER_AT(vnr_program, prepare_share_key, 48),
    VENEER_AT(vnr_io, struct_size, 0),
    VENEER_AT(vnr_io, tokens, 4),
    VENEER_AT(vnr_io, x, 8),
    VENEER_AT(vnr_io, x_out, 16),
    VENEER_AT(vnr_io, y, 24),
    VENEER_AT(vnr_io, x_stride, 32),
    VENEER_AT(vnr_io, x_out_stride, 40),
    VENEER_AT(vnr_io, y_stride, 48),
    VENEER_AT(vnr_io, prepared, 56),
    VENEER_AT(vnr_io, prepared_stride, 64),
    VENEER_AT(vnr_io, scratch, 72),
    VENEER_AT(vnr_io, ids, 80),
    VENEER_AT(vnr_kind, struct_size, 0),
    VENEER_AT(vnr_kind, flags, 4),
    VENEER_AT(vnr_kind, site_mask, 8),
    VENEER_AT(vnr_kind, n_roles, 12),
    VENEER_AT(vnr_kind, id, 16),
    VENEER_AT(vnr_kind, version, 24),
    VENEER_AT(vnr_kind, summary, 32),
    VENEER_AT(vnr_kind, config_schema, 40),
    VENEER_AT(vnr_kind, roles, 48),
    VENEER_AT(vnr_kind, open, 56),
    VENEER_AT(vnr_kind, close, 64),
    VENEER_AT(vnr_kind, bind, 72),
    VENEER_AT(vnr_kind, unbind, 80),
    VENEER_AT(vnr_kind, estimate, 88),
    VENEER_AT(vnr_kind, stage, 96),
    VENEER_AT(vnr_kind, weight_rows, 104),
    VENEER_AT(vnr_kind, bias, 112),
    VENEER_AT(vnr_kind, describe, 120),
    VENEER_AT(vnr_kind, transform, 128),
    VENEER_AT(vnr_kind, prepare, 136),
    VENEER_AT(vnr_kind, apply, 144),
    VENEER_AT(vnr_kind, get_extension, 152),
    VENEER_AT(vnr_entry, struct_size, 0),
    VENEER_AT(vnr_entry, abi_major, 4),
    VENEER_AT(vnr_entry, abi_minor_built, 8),
    VENEER_AT(vnr_entry, abi_minor_min, 12),
    VENEER_AT(vnr_entry, name, 16),
    VENEER_AT(vnr_entry, version, 24),
    VENEER_AT(vnr_entry, build, 32),
    VENEER_AT(vnr_entry, kinds, 40),
    VENEER_AT(vnr_entry, n_kinds, 48),
    VENEER_AT(vnr_entry, reserved, 52),
    VENEER_AT(vnr_import_rule, struct_size, 0),
    VENEER_AT(vnr_import_rule, action, 4),
    VENEER_AT(vnr_import_rule, key, 8),
    VENEER_AT(vnr_import_rule, values, 16),
    VENEER_AT(vnr_import_rule, text, 24),
    VENEER_AT(vnr_import_tensor, struct_size, 0),
    VENEER_AT(vnr_import_tensor, flags, 4),
    VENEER_AT(vnr_import_tensor, site_mask, 8),
    VENEER_AT(vnr_import_tensor, reserved, 12),
    VENEER_AT(vnr_import_tensor, suffix, 16),
    VENEER_AT(vnr_import_tensor, role, 24),
    VENEER_AT(vnr_import_tensor, when_key, 32),
    VENEER_AT(vnr_import_tensor, when_default, 40),
    VENEER_AT(vnr_import_scale, struct_size, 0),
    VENEER_AT(vnr_import_scale, reserved, 4),
    VENEER_AT(vnr_import_scale, param, 8),
    VENEER_AT(vnr_import_scale, numerator_key, 16),
    VENEER_AT(vnr_import_scale, numerator_pattern, 24),
    VENEER_AT(vnr_import_scale, denominator_key, 32),
    VENEER_AT(vnr_import_scale, denominator_pattern, 40),
    VENEER_AT(vnr_import_scale, sqrt_key, 48),
    VENEER_AT(vnr_import_scale, numerator_default, 56),
    VENEER_AT(vnr_import_scale, denominator_default, 64),
    VENEER_AT(vnr_import_param, struct_size, 0),
    VENEER_AT(vnr_import_param, type, 4),
    VENEER_AT(vnr_import_param, param, 8),
    VENEER_AT(vnr_import_param, key, 16),
    VENEER_AT(vnr_import_param, default_json, 24),
    VENEER_AT(vnr_import, struct_size, 0),
    VENEER_AT(vnr_import, n_rules, 4),
    VENEER_AT(vnr_import, n_tensors, 8),
    VENEER_AT(vnr_import, n_params, 12),
    VENEER_AT(vnr_import, peft_type, 16),
    VENEER_AT(vnr_import, default_targets, 24),
    VENEER_AT(vnr_import, rank_symbol, 32),
    VENEER_AT(vnr_import, scale, 40),
    VENEER_AT(vnr_import, rules, 48),
    VENEER_AT(vnr_import, tensors, 56),
    VENEER_AT(vnr_import, params, 64),
};
constexpr Place kSizes[] = {
    // in the order of abi_sizes_in_c
    VENEER_SIZE(vnr_bytes, 16),        VENEER_SIZE(vnr_err, 24),          VENEER_SIZE(vnr_sink, 16),
    VENEER_SIZE(vnr_tensor, 64),       VENEER_SIZE(vnr_role, 40),         VENEER_SIZE(vnr_param, 48),
    VENEER_SIZE(vnr_source, 40),       VENEER_SIZE(vnr_site, 56),         VENEER_SIZE(vnr_host, 72),
    VENEER_SIZE(vnr_base_rows, 24),    VENEER_SIZE(vnr_limits, 24),       VENEER_SIZE(vnr_cost, 40),
    VENEER_SIZE(vnr_program, 56),      VENEER_SIZE(vnr_io, 88),           VENEER_SIZE(vnr_kind, 160),
    VENEER_SIZE(vnr_entry, 56),        VENEER_SIZE(vnr_import_rule, 32),  VENEER_SIZE(vnr_import_tensor, 48),
    VENEER_SIZE(vnr_import_scale, 72), VENEER_SIZE(vnr_import_param, 32), VENEER_SIZE(vnr_import, 72),
};

}  // namespace

TEST_CASE("abi layout: every struct has its frozen size and every field its frozen offset, in C and in C++ (LP64)") {
  static_assert(sizeof(void*) == 8, "ILP32 has a table of its own when a port needs it");
  for (const Place& place : kOffsets) {
    INFO(place.name);
    CHECK(place.found == place.frozen);
  }
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    INFO(kSizes[i].name);
    CHECK(kSizes[i].found == kSizes[i].frozen);
    CHECK(abi_sizes_in_c[i] == kSizes[i].frozen);
  }
  CHECK(std::size(kSizes) == 21);
  CHECK(abi_first_role_rank_in_c() == 2);
}

TEST_CASE("abi values: codes, types, classes and flags have their frozen numbers") {
  CHECK(VNR_ABI_MAJOR == 1);
  CHECK(VNR_ABI_MINOR == 0);
  const int codes[] = {VNR_OK,          VNR_E_INVALID, VNR_E_UNSUPPORTED, VNR_E_NOMEM,   VNR_E_BUDGET,
                       VNR_E_CANCELLED, VNR_E_STATE,   VNR_E_NUMERIC,     VNR_E_INTERNAL};
  for (int i = 0; i < 9; ++i) CHECK(codes[i] == i);
  const int types[] = {VNR_F32, VNR_F16, VNR_BF16, VNR_F64, VNR_I8, VNR_I16, VNR_I32, VNR_I64, VNR_U8, VNR_U16, VNR_U32, VNR_U64, VNR_BOOL};
  for (int i = 0; i < 13; ++i) CHECK(types[i] == i);
  const int quantized[] = {VNR_Q4_0, VNR_Q4_1, VNR_Q5_0, VNR_Q5_1,   VNR_Q8_0, VNR_Q2_K,    VNR_Q3_K,
                           VNR_Q4_K, VNR_Q5_K, VNR_Q6_K, VNR_IQ4_NL, VNR_NF4,  VNR_INT8_ROW};
  for (int i = 0; i < 13; ++i) CHECK(quantized[i] == 16 + i);
  CHECK(VNR_SITE_LINEAR == 0);
  CHECK(VNR_SITE_EMBEDDING == 1);
  CHECK(VNR_SITE_VECTOR == 2);
  CHECK(VNR_DIM('r') == 0x40000072U);
  CHECK(VNR_DIM_IN == 0x80000000U);
  CHECK(VNR_DIM_OUT_PLUS_1 == 0x80000003U);
  const unsigned program_flags[] = {VNR_ADDS_Y, VNR_SCALES_Y, VNR_TRANSFORMS_X, VNR_LANEWISE_T, VNR_EDITS_BIAS, VNR_ALLOCATES_FOR_TOKENS};
  for (unsigned i = 0; i < 6; ++i) CHECK(program_flags[i] == 1U << i);
  const unsigned role_flags[] = {VNR_ROLE_OPTIONAL,  VNR_ROLE_SHARED,       VNR_ROLE_FORBID_BROADCAST, VNR_ROLE_ENTRIES,
                                 VNR_ROLE_ON_LINEAR, VNR_ROLE_ON_EMBEDDING, VNR_ROLE_ON_VECTOR};
  for (unsigned i = 0; i < 7; ++i) CHECK(role_flags[i] == 1U << i);
  CHECK(VNR_KIND_NEEDS_BASE_ROWS == 1);
  CHECK(VNR_KIND_BORROWS_TENSORS == 2);
  CHECK(VNR_KIND_ADDITIVE == 4);
  CHECK(std::string(VNR_PARAM_STRENGTH) == "/strength");
  CHECK(std::string(VNR_IMPORT_ID) == "veneer.import/1");
}
