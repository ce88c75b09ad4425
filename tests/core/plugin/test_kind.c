/* A complete overlay plugin in plain C: y[lane] += strength * scale * v[lane]... as a weight: D = strength * scale * v 1^T.
 * Built as a module and into the test program. */
#include <string.h>

#include "veneer/abi.h"
#include "veneer/import.h"

struct vnr_artifact { const vnr_host* host; };
struct vnr_binding {
  const vnr_host* host;
  uint64_t out, in;
  float scale;
  const float* source;
  float* v;
};

static int32_t Open(const vnr_kind* kind, const vnr_host* host, const vnr_source* shared, vnr_artifact** out, vnr_err* err) {
  (void)kind; (void)shared; (void)err;
  vnr_artifact* artifact = host->alloc(host, sizeof *artifact, 0);
  if (artifact == NULL) return VNR_E_NOMEM;
  artifact->host = host;
  *out = artifact;
  return VNR_OK;
}
static void Close(vnr_artifact* artifact) { artifact->host->free(artifact->host, artifact); }

static int32_t Bind(vnr_artifact* artifact, const vnr_site* site, const vnr_source* source, vnr_binding** out, vnr_err* err) {
  (void)err;
  vnr_binding* binding = artifact->host->alloc(artifact->host, sizeof *binding, 0);
  if (binding == NULL) return VNR_E_NOMEM;
  memset(binding, 0, sizeof *binding);
  binding->host = artifact->host;
  binding->out = site->out;
  binding->in = site->in;
  double scale = 1;
  for (uint32_t i = 0; i < source->n_params; i++) scale *= source->params[i]->d; /* /scale and /strength */
  binding->scale = (float)scale;
  binding->source = source->tensors[0]->data;
  *out = binding;
  return VNR_OK;
}
static void Unbind(vnr_binding* binding) {
  binding->host->free(binding->host, binding->v);
  binding->host->free(binding->host, binding);
}

static int32_t Estimate(const vnr_binding* binding, const vnr_limits* limits, vnr_cost* cost, vnr_err* err) {
  (void)limits; (void)err;
  cost->shared_bytes = sizeof(vnr_artifact);
  cost->resident_bytes = sizeof *binding + binding->out * sizeof(float);
  cost->stage_peak_bytes = cost->resident_bytes;
  return VNR_OK;
}
static int32_t Stage(vnr_binding* binding, const vnr_limits* limits, const vnr_base_rows* base, vnr_program* program, vnr_err* err) {
  (void)limits; (void)base; (void)err;
  binding->v = binding->host->alloc(binding->host, binding->out * sizeof(float), 64);
  if (binding->v == NULL) return VNR_E_BUDGET;
  for (uint64_t i = 0; i < binding->out; i++) binding->v[i] = binding->scale * binding->source[i];
  program->flags = VNR_ADDS_Y;
  program->det_level = 2;
  program->lane_quantum = 1;
  program->token_block_max = UINT32_MAX;
  program->transform_unit = 1;
  program->amplification = 1;
  return VNR_OK;
}
static int32_t WeightRows(const vnr_binding* binding, uint64_t row, uint64_t n, float* w, uint64_t ld, vnr_err* err) {
  (void)err;
  for (uint64_t r = 0; r < n; r++)
    for (uint64_t i = 0; i < binding->in; i++) w[r * ld + i] += binding->v[row + r];
  return VNR_OK;
}
static int32_t Bias(const vnr_binding* binding, float* b, uint64_t n, vnr_err* err) {
  (void)binding; (void)b; (void)n; (void)err;
  return VNR_OK;
}
static int32_t Describe(const vnr_artifact* artifact, const vnr_binding* binding, const vnr_sink* sink, vnr_err* err) {
  (void)artifact; (void)binding; (void)err;
  sink->write(sink->ctx, "{}", 2);
  return VNR_OK;
}
static int32_t Nothing(const vnr_binding* binding, const vnr_io* io, uint32_t unit0, uint32_t unit1) {
  (void)binding; (void)io; (void)unit0; (void)unit1;
  return VNR_OK;
}
static int32_t Apply(const vnr_binding* binding, const vnr_io* io, uint64_t lane0, uint64_t lane1) {
  for (uint32_t t = 0; t < io->tokens; t++) {
    float sum = 0;
    for (uint64_t i = 0; i < binding->in; i++) sum += io->x[t * io->x_stride + i];
    for (uint64_t lane = lane0; lane < lane1; lane++) io->y[t * io->y_stride + lane] += binding->v[lane] * sum;
  }
  return VNR_OK;
}

static const vnr_import_rule kRule = {sizeof(vnr_import_rule), VNR_CFG_ACCEPT, "offset_scale", NULL, NULL};
static const vnr_import_rule* const kRules[] = {&kRule};
static const vnr_import_tensor kTensor = {sizeof(vnr_import_tensor), 0, VNR_BIT(VNR_SITE_LINEAR), 0, ".offset", "v", NULL, NULL};
static const vnr_import_tensor* const kTensors[] = {&kTensor};
static const vnr_import_param kParam = {sizeof(vnr_import_param), VNR_PARAM_NUMBER, "/scale", "offset_scale", "1.0"};
static const vnr_import_param* const kParams[] = {&kParam};
static const vnr_import kImport = {sizeof(vnr_import), 1, 1, 1, "OFFSET", "{\"llama\": [\"q_proj\"]}", NULL, NULL, kRules, kTensors, kParams};
static const vnr_import_rule kGgufRule = {sizeof(vnr_import_rule), VNR_CFG_REFUSE, "adapter.offset.moving", NULL, "offsets stand still"};
static const vnr_import_rule* const kGgufRules[] = {&kGgufRule};
static const vnr_import_gguf_tensor kGgufTensor = {sizeof(vnr_import_gguf_tensor), 0, VNR_BIT(VNR_SITE_LINEAR), 0, ".offset", "v"};
static const vnr_import_gguf_tensor* const kGgufTensors[] = {&kGgufTensor};
static const vnr_import_gguf kGgufImport = {sizeof(vnr_import_gguf), 1, 1, 0, "offset", NULL, NULL, NULL, kGgufRules, kGgufTensors};
static const void* GetExtension(const vnr_kind* kind, const char* id) {
  (void)kind;
  if (strcmp(id, VNR_IMPORT_GGUF_ID) == 0) return &kGgufImport;
  return strcmp(id, VNR_IMPORT_ID) == 0 ? &kImport : NULL;
}

static const vnr_role kV = {sizeof(vnr_role), 0, 1, VNR_BIT(VNR_F32), {VNR_DIM_OUT, 0, 0, 0}, "v"};
static const vnr_role* const kRoles[] = {&kV};
static const vnr_kind kKind = {sizeof(vnr_kind), VNR_KIND_ADDITIVE, VNR_BIT(VNR_SITE_LINEAR), 1, "org.example.offset", "1.0.0",
                               "adds a constant to every row",
                               "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"scale\": {\"type\": \"number\"}}}",
                               kRoles, Open, Close, Bind, Unbind, Estimate, Stage, WeightRows, Bias, Describe, Nothing, Nothing, Apply,
                               GetExtension};
static const vnr_kind* const kKinds[] = {&kKind};

#ifndef TEST_VERSION
#define TEST_VERSION "1.0.0"
#endif
#ifdef VENEER_STATIC
extern const vnr_entry veneer_overlay_entry_v1_offset;
#define ENTRY veneer_overlay_entry_v1_offset
#else
#define ENTRY veneer_overlay_entry_v1
#endif
const vnr_entry ENTRY = {sizeof(vnr_entry), VNR_ABI_MAJOR, VNR_ABI_MINOR, 0, "example-offset", TEST_VERSION, "test", kKinds, 1, 0};
