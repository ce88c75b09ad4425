/* Extensions veneer.import/1 and veneer.import.gguf/1: how checkpoints of the PEFT family, and adapters in llama.cpp's
 * GGUF layout, map to a kind. Constant data, C11.
 *
 * A kind returns a `const vnr_import*` from vnr_kind.get_extension(kind, VNR_IMPORT_ID) and a `const vnr_import_gguf*`
 * for VNR_IMPORT_GGUF_ID, or NULL for what it does not read. The host copies them into the plugin's card, so importing
 * and validating run no plugin code. Core's one PEFT reader knows the keys that are common to all tuners
 * (target_modules, layers_to_transform, task_type, ...), its one GGUF reader those that are common to all adapters
 * (general.type, general.architecture, adapter.type); everything that belongs to one kind is here.
 */
#ifndef VENEER_IMPORT_H_
#define VENEER_IMPORT_H_

#include "veneer/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VNR_IMPORT_ID "veneer.import/1"
#define VNR_IMPORT_GGUF_ID "veneer.import.gguf/1"

/* vnr_import_rule.action. The rules of one key are tried in order; the first whose `values` match decides.
 * A key with rules none of which match is refused. A key without rules is accepted only with an inert value
 * (null, false, "", [], {}), because a field we do not know may change the result. */
enum {
  VNR_CFG_ACCEPT = 0,       /* used by this declaration, or harmless                                              */
  VNR_CFG_SELECT = 1,       /* this kind applies only when the value matches; otherwise another kind may          */
  VNR_CFG_REFUSE = 2,       /* refused as E401 with `text` (reason and remedy)                                    */
  VNR_CFG_BASE_CHANGED = 3  /* refused as E418: the adapter is only valid on a base changed by its initialisation */
};

typedef struct vnr_import_rule {
  uint32_t struct_size, action;
  const char* key;    /* top-level key of adapter_config.json                                                     */
  const char* values; /* NULL: any value. Else a JSON array of values; an absent key counts as null; a string ending in '*' matches by prefix */
  const char* text;   /* reason and remedy, shown to the user; may be NULL for ACCEPT and SELECT                  */
} vnr_import_rule;

/* vnr_import_tensor.flags */
enum {
  VNR_IMPORT_WHEN_LISTED = 1u,     /* only for modules that config key `when_key` lists                           */
  VNR_IMPORT_WHEN_NOT_LISTED = 2u, /* only for the others. A list entry matches as a plain suffix, a string by full regex match, true every module */
  VNR_IMPORT_SHARED = 4u           /* artifact-wide: `suffix` is the whole name after the prefix                  */
};

typedef struct vnr_import_tensor {
  uint32_t struct_size, flags, site_mask, reserved;
  const char* suffix;       /* what follows the module path: ".lora_A.weight"                                     */
  const char* role;         /* vnr_role.name                                                                      */
  const char* when_key;     /* "feedforward_modules"; NULL without WHEN_*                                         */
  const char* when_default; /* JSON object architecture -> list, for a null or absent when_key                    */
} vnr_import_tensor;

/* A number parameter computed per module: numerator / denominator, or numerator / sqrt(denominator).
 * Patterns are objects whose keys match the module path as re.match("(.*\.)?(KEY)$"); the first match wins. */
typedef struct vnr_import_scale {
  uint32_t struct_size, reserved;
  const char* param;               /* "/scale"                                                                    */
  const char* numerator_key;       /* "lora_alpha"                                                                */
  const char* numerator_pattern;   /* "alpha_pattern" or NULL                                                     */
  const char* denominator_key;     /* "r"                                                                         */
  const char* denominator_pattern; /* "rank_pattern" or NULL                                                      */
  const char* sqrt_key;            /* "use_rslora" or NULL: true selects the square root                          */
  double numerator_default, denominator_default;
} vnr_import_scale;

/* A parameter copied from a config key (for example a block size). */
typedef struct vnr_import_param {
  uint32_t struct_size, type; /* VNR_PARAM_*                                                                      */
  const char* param;          /* "/block_size"                                                                    */
  const char* key;
  const char* default_json;   /* value when the key is absent; NULL: the key is required                          */
} vnr_import_param;

typedef struct vnr_import {
  uint32_t struct_size, n_rules, n_tensors, n_params;
  const char* peft_type;       /* "LORA"                                                                          */
  const char* default_targets; /* JSON object architecture -> list, for a null target_modules                     */
  const char* rank_symbol;     /* "r": the symbolic dim that must equal the configured rank; NULL without rank    */
  const vnr_import_scale* scale; /* NULL without a computed scale                                                 */
  const vnr_import_rule* const* rules;
  const vnr_import_tensor* const* tensors;
  const vnr_import_param* const* params;
} vnr_import;

/* ---- veneer.import.gguf/1 ----
 * A tensor of such a file is named "<name in a GGUF base><suffix>": "blk.0.attn_q.weight.lora_a". Its role has one or two
 * dimensions, and its elements are values, not indices: block types become f32, and along OUT the host reorders what a base
 * stores in another order than Hugging Face's. */

/* vnr_import_gguf_tensor.flags */
enum { VNR_IMPORT_GGUF_TRANSPOSED = 1u }; /* stored with the two dimensions of the role exchanged */

typedef struct vnr_import_gguf_tensor {
  uint32_t struct_size, flags, site_mask, reserved;
  const char* suffix; /* what follows the base tensor's name: ".lora_a"                                           */
  const char* role;   /* vnr_role.name                                                                            */
} vnr_import_gguf_tensor;

/* The scale is the value of `numerator_key` divided by the rank of each site's own tensors; without the key, or with the
 * value 0, it is 1 (llama.cpp's rule). An empty list or text and false count as an absent key. Any other key under
 * "adapter." that is neither `adapter.type` nor the numerator nor named by a rule is refused, because a field we do not
 * know may change the result. */
typedef struct vnr_import_gguf {
  uint32_t struct_size, n_rules, n_tensors, reserved;
  const char* adapter_type;  /* value of the file's `adapter.type`: "lora"                                        */
  const char* rank_symbol;   /* "r": the symbolic dim that is the rank; NULL without rank                         */
  const char* scale_param;   /* "/scale"; NULL without a computed scale, and then no numerator                    */
  const char* numerator_key; /* "adapter.lora.alpha"                                                              */
  const vnr_import_rule* const* rules; /* ACCEPT, REFUSE or BASE_CHANGED; `values` NULL         */
  const vnr_import_gguf_tensor* const* tensors;
} vnr_import_gguf;

#ifdef __cplusplus
}
#endif
#endif /* VENEER_IMPORT_H_ */
