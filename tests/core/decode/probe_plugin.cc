// A kind for tests of the host's side of decoding, straight on the C ABI: prepare writes value * x[0], apply adds it to every lane, or
// fails on request, or marks where the host's calls begin. Two bindings of unequal value under one prepare_share_key break the ABI's
// promise on purpose: it shows who prepared.
#include <new>

#include "veneer/abi.h"

struct vnr_artifact {
  const vnr_host* host;
};
struct vnr_binding {
  const vnr_host* host;
  float value;
  bool fails;
  uint64_t share_key;
  uint32_t marks;  // 0, or the determinism level of a binding that adds one to the first lane of every call instead
};

namespace {

template <class T>
T* Make(const vnr_host* host, const T& value) {
  void* memory = host->alloc(host, sizeof(T), alignof(T));
  return memory == nullptr ? nullptr : new (memory) T(value);
}

bool Is(const char* path, const char* name) {
  while (*path != '\0' && *path == *name) ++path, ++name;
  return *path == *name;
}

int32_t Open(const vnr_kind*, const vnr_host* host, const vnr_source*, vnr_artifact** out, vnr_err*) {
  *out = Make(host, vnr_artifact{host});
  return *out == nullptr ? VNR_E_NOMEM : VNR_OK;
}
void Close(vnr_artifact* artifact) { artifact->host->free(artifact->host, artifact); }

int32_t Bind(vnr_artifact* artifact, const vnr_site*, const vnr_source* source, vnr_binding** out, vnr_err*) {
  vnr_binding binding{artifact->host, 0, false, 0, 0};
  for (uint32_t i = 0; i < source->n_params; ++i) {
    const vnr_param& param = *source->params[i];
    if (Is(param.path, "/value")) binding.value = static_cast<float>(param.d);
    if (Is(param.path, "/fails")) binding.fails = param.i != 0;
    if (Is(param.path, "/marks")) binding.marks = static_cast<uint32_t>(param.i);
    if (Is(param.path, "/share")) binding.share_key = static_cast<uint64_t>(param.i);
  }
  *out = Make(artifact->host, binding);
  return *out == nullptr ? VNR_E_NOMEM : VNR_OK;
}
void Unbind(vnr_binding* binding) { binding->host->free(binding->host, binding); }

int32_t Estimate(const vnr_binding*, const vnr_limits*, vnr_cost* cost, vnr_err*) {
  cost->resident_bytes = cost->stage_peak_bytes = sizeof(vnr_binding);
  cost->shared_bytes = sizeof(vnr_artifact);
  return VNR_OK;
}
int32_t Stage(vnr_binding* binding, const vnr_limits* limits, const vnr_base_rows*, vnr_program* program, vnr_err*) {
  program->flags = VNR_ADDS_Y;
  program->det_level = binding->marks == 1 ? 1 : 2;
  program->lane_quantum = 1;
  program->token_block_max = limits->max_token_block;
  program->prepare_units = 1;
  program->amplification = 1;
  program->prepared_bytes_per_token = sizeof(float);
  program->prepare_share_key = binding->share_key;
  return VNR_OK;
}
int32_t WeightRows(const vnr_binding* binding, uint64_t, uint64_t n, float* w, uint64_t ld, vnr_err*) {
  for (uint64_t row = 0; row < n; ++row) w[row * ld] += binding->value;
  return VNR_OK;
}
int32_t Bias(const vnr_binding*, float*, uint64_t, vnr_err*) { return VNR_OK; }
int32_t Describe(const vnr_artifact*, const vnr_binding*, const vnr_sink* sink, vnr_err*) {
  sink->write(sink->ctx, "{}", 2);
  return VNR_OK;
}

float* Prepared(const vnr_io* io, uint32_t t) {
  return reinterpret_cast<float*>(static_cast<char*>(io->prepared) + t * io->prepared_stride);
}

int32_t Transform(const vnr_binding*, const vnr_io*, uint32_t, uint32_t) { return VNR_OK; }
int32_t Prepare(const vnr_binding* binding, const vnr_io* io, uint32_t, uint32_t) {
  for (uint32_t t = 0; t < io->tokens; ++t) *Prepared(io, t) = binding->value * io->x[t * io->x_stride];
  return VNR_OK;
}
int32_t Apply(const vnr_binding* binding, const vnr_io* io, uint64_t lane0, uint64_t lane1) {
  if (binding->fails) return VNR_E_INTERNAL;
  for (uint32_t t = 0; t < io->tokens && binding->marks != 0; ++t) io->y[t * io->y_stride + lane0] += 1;
  for (uint32_t t = 0; t < io->tokens && binding->marks == 0; ++t)
    for (uint64_t lane = lane0; lane < lane1; ++lane) io->y[t * io->y_stride + lane] += *Prepared(io, t);
  return VNR_OK;
}
const void* GetExtension(const vnr_kind*, const char*) { return nullptr; }

constexpr vnr_kind kKind = {sizeof(vnr_kind),
                            VNR_KIND_ADDITIVE,
                            VNR_BIT(VNR_SITE_LINEAR),
                            0,
                            "test.probe",
                            "1.0.0",
                            "adds value * x[0] to every lane",
                            R"({"type":"object","additionalProperties":false,
        "properties":{"value":{"type":"number"},"fails":{"type":"boolean"},
                      "marks":{"type":"integer","minimum":0,"maximum":2},"share":{"type":"integer","minimum":0}}})",
                            nullptr,
                            Open,
                            Close,
                            Bind,
                            Unbind,
                            Estimate,
                            Stage,
                            WeightRows,
                            Bias,
                            Describe,
                            Transform,
                            Prepare,
                            Apply,
                            GetExtension};
constexpr const vnr_kind* kKinds[] = {&kKind};

}  // namespace

extern "C" __attribute__((visibility("default")))
const vnr_entry veneer_overlay_entry_v1 = {sizeof(vnr_entry), VNR_ABI_MAJOR, VNR_ABI_MINOR, 0, "test-probe", "1.0.0", "test", kKinds, 1, 0};
