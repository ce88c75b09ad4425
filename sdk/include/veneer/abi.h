/* The binary contract between the veneer host and an overlay plugin: ABI 1, C11.
 *
 * A plugin is a shared library that exports one constant object, `veneer_overlay_entry_v1`. Everything the host
 * needs to know before it runs plugin code (kinds, tensor roles, parameter schema) is data reachable from it.
 *
 * Layout rules: fixed-width integers, pointers and function pointers only; every extensible struct starts with
 * `struct_size` and has no tail padding on LP64, ILP32 or wasm32; arrays of extensible structs are arrays of pointers.
 * Call order, threads, ownership and evolution: sdk/ABI.md.
 */
#ifndef VENEER_ABI_H_
#define VENEER_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VNR_ABI_MAJOR 1u
#define VNR_ABI_MINOR 0u

/* True when the writer of *p knew `field`. Read a tail field only after this test. */
#define VNR_HAS(p, T, field) ((p)->struct_size >= offsetof(T, field) + sizeof((p)->field))

/* ---- result codes. Unknown non-zero codes are treated as INTERNAL. ---- */
enum {
  VNR_OK = 0,
  VNR_E_INVALID = 1,     /* the tensors or parameters contradict the kind's rules            */
  VNR_E_UNSUPPORTED = 2, /* legal, but this plugin does not implement it                     */
  VNR_E_NOMEM = 3,       /* the host allocator returned NULL                                 */
  VNR_E_BUDGET = 4,      /* the overlay does not fit into vnr_limits.budget_bytes            */
  VNR_E_CANCELLED = 5,   /* vnr_host.cancelled said so                                       */
  VNR_E_STATE = 6,       /* call out of order                                                */
  VNR_E_NUMERIC = 7,     /* a value that would become NaN or infinite later                  */
  VNR_E_INTERNAL = 8
};

/* ---- element types. A role's dtype_mask has bit (1 << type). ---- */
enum {
  VNR_F32 = 0, VNR_F16 = 1, VNR_BF16 = 2, VNR_F64 = 3,
  VNR_I8 = 4, VNR_I16 = 5, VNR_I32 = 6, VNR_I64 = 7,
  VNR_U8 = 8, VNR_U16 = 9, VNR_U32 = 10, VNR_U64 = 11, VNR_BOOL = 12,
  /* block types of quantized bases; a plugin meets them only as vnr_site.base_dtype */
  VNR_Q4_0 = 16, VNR_Q4_1 = 17, VNR_Q5_0 = 18, VNR_Q5_1 = 19, VNR_Q8_0 = 20,
  VNR_Q2_K = 21, VNR_Q3_K = 22, VNR_Q4_K = 23, VNR_Q5_K = 24, VNR_Q6_K = 25,
  VNR_IQ4_NL = 26, VNR_NF4 = 27, VNR_INT8_ROW = 28
};
#define VNR_BIT(type) (1u << (type))

/* ---- site classes ---- */
enum {
  VNR_SITE_LINEAR = 0,    /* W [out, in];     lane = row of W = element of the output          */
  VNR_SITE_EMBEDDING = 1, /* W [vocab, width] with out = vocab, in = width; lane = column      */
  VNR_SITE_VECTOR = 2     /* w [out], in = 1; lane = element; composed once at stage, no hot path */
};
/* vnr_site.flags */
enum { VNR_SITE_HAS_BIAS = 1u, VNR_SITE_TIED = 2u };

/* ---- symbolic dimensions of roles. Values below VNR_DIM_SYMBOL are constants. ----
 * Macros, not enumerators: they exceed INT_MAX. IN and OUT are vnr_site.in and vnr_site.out for every class. */
#define VNR_DIM_SYMBOL 0x40000000u            /* VNR_DIM('r'): unified across the roles of one site */
#define VNR_DIM(letter) (VNR_DIM_SYMBOL | (uint32_t)(letter))
#define VNR_DIM_IN 0x80000000u
#define VNR_DIM_OUT 0x80000001u
#define VNR_DIM_IN_PLUS_1 0x80000002u
#define VNR_DIM_OUT_PLUS_1 0x80000003u

/* vnr_role.flags */
enum {
  VNR_ROLE_OPTIONAL = 1u,
  VNR_ROLE_SHARED = 2u,          /* artifact-scoped: handed to open(), not to bind()                    */
  VNR_ROLE_FORBID_BROADCAST = 4u,
  VNR_ROLE_ENTRIES = 8u,         /* its symbols count stored entries: 0 to IN x OUT instead of 1 to 65536 */
  VNR_ROLE_ON_LINEAR = 16u,      /* restrict the role to site classes; none of the three bits = any      */
  VNR_ROLE_ON_EMBEDDING = 32u,
  VNR_ROLE_ON_VECTOR = 64u
};

/* vnr_kind.flags */
enum {
  VNR_KIND_NEEDS_BASE_ROWS = 1u, /* stage reads rows of the effective predecessor; re-staged when it changes */
  VNR_KIND_BORROWS_TENSORS = 2u, /* tensor views must stay alive until close                                */
  VNR_KIND_ADDITIVE = 4u         /* D_j only: no transform, no scaling of y                                 */
};
/* vnr_kind.site_mask uses VNR_BIT(site class). */

/* vnr_param.type */
enum { VNR_PARAM_INT = 0, VNR_PARAM_NUMBER = 1, VNR_PARAM_STRING = 2, VNR_PARAM_BOOL = 3 };

/* vnr_program.flags */
enum {
  VNR_ADDS_Y = 1u,
  VNR_SCALES_Y = 2u,
  VNR_TRANSFORMS_X = 4u,
  VNR_LANEWISE_T = 8u,            /* T is diagonal: x_out[i] depends on x[i] only                  */
  VNR_EDITS_BIAS = 16u,
  VNR_ALLOCATES_FOR_TOKENS = 32u  /* a math library allocates when tokens > 1; counted in opaque_bytes */
};

/* vnr_host.log levels */
enum { VNR_LOG_DEBUG = 0, VNR_LOG_INFO = 1, VNR_LOG_WARN = 2 };

/* vnr_host.cpu_features: what the host permits, not what cpuid says */
enum { VNR_CPU_AVX2 = 1u, VNR_CPU_FMA = 2u, VNR_CPU_F16C = 4u, VNR_CPU_AVX512 = 8u };

typedef struct vnr_bytes { const char* data; uint64_t size; } vnr_bytes; /* frozen: never extended */

typedef struct vnr_err { /* caller-owned buffer; text is UTF-8, truncated to capacity - 1 and NUL-terminated */
  uint32_t struct_size; int32_t code; uint32_t capacity, length; char* text;
} vnr_err;

typedef struct vnr_sink { void* ctx; void (*write)(void*, const char*, uint64_t); } vnr_sink;

typedef struct vnr_tensor { /* dense row-major view, dims[0] outermost */
  uint32_t struct_size, dtype, rank, flags; uint64_t dims[4]; const void* data; uint64_t nbytes;
} vnr_tensor;

typedef struct vnr_role { /* declaration of one tensor */
  uint32_t struct_size, flags, rank, dtype_mask; uint32_t dims[4]; const char* name;
} vnr_role;

typedef struct vnr_param { /* typed and checked against the kind's config_schema; path is a JSON pointer */
  uint32_t struct_size, type; const char* path; int64_t i; double d; vnr_bytes s;
} vnr_param;

typedef struct vnr_source {
  uint32_t struct_size, n_tensors, n_params, reserved;
  const char* const* roles; const vnr_tensor* const* tensors; const vnr_param* const* params;
} vnr_source;

typedef struct vnr_site {
  uint32_t struct_size, index, shape_class, flags;
  const char* id; /* Hugging Face module path: "model.layers.3.self_attn.q_proj" */
  uint64_t out, in;
  uint32_t layer, expert, storage_group, base_dtype; /* layer, expert: UINT32_MAX when none */
} vnr_site;

typedef struct vnr_host vnr_host;
struct vnr_host { /* one per artifact, valid from open until close returned */
  uint32_t struct_size, abi_minor; void* ctx;
  const void* (*get_extension)(const vnr_host*, const char* id);              /* [any]   */
  void* (*alloc)(const vnr_host*, uint64_t bytes, uint64_t align);            /* [setup] budgeted, NULL over limit */
  void (*free)(const vnr_host*, void*);                                       /* [setup] */
  void (*log)(const vnr_host*, uint32_t level, const char*, uint64_t);        /* [setup] */
  uint32_t (*cancelled)(const vnr_host*);                                     /* [setup] */
  int32_t (*parallel_for)(const vnr_host*, uint32_t n, void (*fn)(void*, uint32_t), void*); /* [setup] */
  uint64_t cpu_features;
};

typedef struct vnr_base_rows { /* rows of the effective predecessor W_{j-1}, f32; valid only inside stage */
  uint32_t struct_size, reserved; void* ctx;
  int32_t (*read)(void* ctx, uint64_t row, uint64_t n, float* dst, uint64_t ld);
} vnr_base_rows;

typedef struct vnr_limits {
  uint32_t struct_size, max_threads, max_token_block, min_det; uint64_t budget_bytes;
} vnr_limits;

typedef struct vnr_cost {
  uint32_t struct_size, reserved; uint64_t shared_bytes, resident_bytes, stage_peak_bytes, opaque_bytes;
} vnr_cost;

typedef struct vnr_program {
  uint32_t struct_size, flags;
  uint32_t det_level, lane_quantum;   /* 1 or 2; tiles start at multiples of lane_quantum               */
  uint32_t token_block_max;           /* hot calls get at most this many tokens                         */
  uint32_t transform_unit;            /* elements of x_out one transform unit writes                    */
  uint32_t prepare_units;             /* number of independent prepare units                            */
  uint32_t amplification;             /* conformance bound factor a, 1..256                             */
  uint64_t prepared_bytes_per_token, thread_scratch_bytes, prepare_share_key;
} vnr_program;

typedef struct vnr_io {
  uint32_t struct_size, tokens;
  const float* x; float* x_out; float* y;         /* x: this overlay's own version of the input           */
  uint64_t x_stride, x_out_stride, y_stride;      /* elements between tokens                              */
  void* prepared; uint64_t prepared_stride;       /* bytes per token, written by prepare, read by apply   */
  void* scratch;                                  /* per calling thread, 64-byte aligned, uninitialised   */
  const int32_t* ids;                             /* EMBEDDING sites only (x is NULL)                     */
} vnr_io;

typedef struct vnr_artifact vnr_artifact;
typedef struct vnr_binding vnr_binding;
typedef struct vnr_kind vnr_kind;
struct vnr_kind { /* constant data */
  uint32_t struct_size, flags, site_mask, n_roles;
  const char *id, *version, *summary, *config_schema;
  const vnr_role* const* roles;
  /* [setup]: one thread at a time per artifact; may run while [hot] runs on other bindings */
  int32_t (*open)(const vnr_kind*, const vnr_host*, const vnr_source* shared, vnr_artifact**, vnr_err*);
  void (*close)(vnr_artifact*);
  int32_t (*bind)(vnr_artifact*, const vnr_site*, const vnr_source*, vnr_binding**, vnr_err*);
  void (*unbind)(vnr_binding*);
  int32_t (*estimate)(const vnr_binding*, const vnr_limits*, vnr_cost*, vnr_err*);
  int32_t (*stage)(vnr_binding*, const vnr_limits*, const vnr_base_rows*, vnr_program*, vnr_err*);
  int32_t (*weight_rows)(const vnr_binding*, uint64_t row, uint64_t n, float* w, uint64_t ld, vnr_err*);
  int32_t (*bias)(const vnr_binding*, float* b, uint64_t n, vnr_err*);
  int32_t (*describe)(const vnr_artifact*, const vnr_binding*, const vnr_sink*, vnr_err*);
  /* [hot]: any number of threads at once; no allocation, lock, system call or host call */
  int32_t (*transform)(const vnr_binding*, const vnr_io*, uint32_t unit0, uint32_t unit1);
  int32_t (*prepare)(const vnr_binding*, const vnr_io*, uint32_t unit0, uint32_t unit1);
  int32_t (*apply)(const vnr_binding*, const vnr_io*, uint64_t lane0, uint64_t lane1);
  const void* (*get_extension)(const vnr_kind*, const char* id); /* [any] */
};

typedef struct vnr_entry { /* constant data */
  uint32_t struct_size, abi_major, abi_minor_built, abi_minor_min;
  const char *name, *version, *build; /* build: free text, never compared */
  const vnr_kind* const* kinds; uint32_t n_kinds, reserved;
} vnr_entry;

#if defined(VENEER_STATIC)
/* Static registration: the build gives each entry its own name and lists them in vnr_static_entries. */
extern const vnr_entry* const vnr_static_entries[];
extern const uint32_t vnr_static_entry_count;
#else
extern const vnr_entry veneer_overlay_entry_v1; /* the only exported symbol */
#endif

/* The parameter the host adds to every bind: merge_weight w. W_j(w) = W_{j-1} + w (W_j(1) - W_{j-1}), bias alike. */
#define VNR_PARAM_STRENGTH "/strength"

#ifdef __cplusplus
}
#endif
#endif /* VENEER_ABI_H_ */
