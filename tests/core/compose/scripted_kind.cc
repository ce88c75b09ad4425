#include "tests/core/compose/scripted_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>

#include "core/base/digest.h"

struct vnr_artifact {
  const vnr_host* host;
};
struct vnr_binding {
  const vnr_host* host;
  const vnr_site* site;
  float value;
  bool reads;
};

namespace {

std::int32_t Note(const std::string& call) {
  Script& script = TheScript();
  script.calls.push_back(call);
  return call == script.fail ? script.code : VNR_OK;
}
std::int32_t Note(const char* what, const vnr_binding* binding) {
  return Note(fmt::format("{} {} {}", what, binding->site->id, binding->value));
}

template <class T>
T* Make(const vnr_host* host, const T& value) {
  void* memory = host->alloc(host, sizeof(T), alignof(T));
  return memory == nullptr ? nullptr : new (memory) T(value);
}

std::int32_t Open(const vnr_kind*, const vnr_host* host, const vnr_source*, vnr_artifact** out, vnr_err*) {
  if (const std::int32_t code = Note("open"); code != VNR_OK) return code;
  *out = Make(host, vnr_artifact{host});
  if (*out == nullptr) return VNR_E_NOMEM;
  ++TheScript().artifacts;
  return VNR_OK;
}
void Close(vnr_artifact* artifact) {
  --TheScript().artifacts;
  artifact->host->free(artifact->host, artifact);
}

double ValueOf(const vnr_source* source) {
  double value = 0, strength = 1;
  for (std::uint32_t i = 0; i < source->n_params; ++i) {
    const std::string path = source->params[i]->path;
    if (path == "/value") value = source->params[i]->d;
    if (path == VNR_PARAM_STRENGTH) strength = source->params[i]->d;
  }
  return value * strength;
}

template <bool kReads>
std::int32_t Bind(vnr_artifact* artifact, const vnr_site* site, const vnr_source* source, vnr_binding** out, vnr_err*) {
  const vnr_binding binding{artifact->host, site, static_cast<float>(ValueOf(source)), kReads};
  if (const std::int32_t code = Note("bind", &binding); code != VNR_OK) return code;
  *out = Make(artifact->host, binding);
  if (*out == nullptr) return VNR_E_NOMEM;
  ++TheScript().bindings;
  return VNR_OK;
}
void Unbind(vnr_binding* binding) {
  --TheScript().bindings;
  binding->host->free(binding->host, binding);
}

std::int32_t Estimate(const vnr_binding* binding, const vnr_limits*, vnr_cost* cost, vnr_err*) {
  cost->shared_bytes = TheScript().shared;
  cost->resident_bytes = TheScript().resident;
  cost->stage_peak_bytes = TheScript().peak;
  return Note("estimate", binding);
}
std::int32_t Stage(vnr_binding* binding, const vnr_limits* limits, const vnr_base_rows* base, vnr_program* program, vnr_err*) {
  program->flags = VNR_ADDS_Y | VNR_EDITS_BIAS;
  program->det_level = 2;
  program->lane_quantum = 1;
  program->token_block_max = limits->max_token_block;
  program->amplification = 1;
  program->transform_unit = 1;
  if (binding->reads) {
    const bool is_vector = binding->site->shape_class == VNR_SITE_VECTOR;
    std::vector<float> row(is_vector ? binding->site->out : binding->site->in);
    (void)base->read(base->ctx, 0, 1, row.data(), row.size());  // a plugin that does not look at the answer
    TheScript().predecessor = row;
  }
  return Note("stage", binding);
}
std::int32_t WeightRows(const vnr_binding* binding, std::uint64_t, std::uint64_t n, float* w, std::uint64_t ld, vnr_err*) {
  for (std::uint64_t row = 0; row < n; ++row) w[row * ld] += binding->value;
  return Note("weight_rows", binding);
}
std::int32_t Bias(const vnr_binding* binding, float* bias, std::uint64_t n, vnr_err*) {
  for (std::uint64_t i = 0; i < n; ++i) bias[i] += binding->value;
  return Note("bias", binding);
}
std::int32_t Describe(const vnr_artifact*, const vnr_binding*, const vnr_sink* sink, vnr_err*) {
  sink->write(sink->ctx, "{}", 2);
  return VNR_OK;
}
std::int32_t Nothing(const vnr_binding*, const vnr_io*, std::uint32_t, std::uint32_t) { return VNR_OK; }
std::int32_t Apply(const vnr_binding* binding, const vnr_io*, std::uint64_t, std::uint64_t) { return Note("apply", binding); }
const void* GetExtension(const vnr_kind*, const char*) { return nullptr; }

constexpr const char* kSchema = R"({"type":"object","additionalProperties":false,"properties":{"value":{"type":"number"}}})";

template <bool kReads>
constexpr vnr_kind KindOf(const char* id) {
  return {sizeof(vnr_kind),
          kReads ? std::uint32_t{VNR_KIND_NEEDS_BASE_ROWS} : std::uint32_t{VNR_KIND_ADDITIVE},
          VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_VECTOR),
          0,
          id,
          "1.0.0",
          "adds a number to every row",
          kSchema,
          nullptr,
          Open,
          Close,
          Bind<kReads>,
          Unbind,
          Estimate,
          Stage,
          WeightRows,
          Bias,
          Describe,
          Nothing,
          Nothing,
          Apply,
          GetExtension};
}
constexpr vnr_kind kStep = KindOf<false>("test.step");
constexpr vnr_kind kReads = KindOf<true>("test.reads");
constexpr const vnr_kind* kKinds[] = {&kStep, &kReads};
constexpr vnr_entry kEntry = {sizeof(vnr_entry), VNR_ABI_MAJOR, VNR_ABI_MINOR, 0, "test-scripted", "1.0.0", "test", kKinds, 2, 0};

}  // namespace

std::vector<std::string> Script::Of(const std::string& what) const {
  std::vector<std::string> found;
  std::ranges::copy_if(calls, std::back_inserter(found), [&what](const std::string& call) { return call.starts_with(what + " "); });
  return found;
}

Script& TheScript() {
  static Script script;
  return script;
}
Script& NewScript() { return TheScript() = Script(); }

const veneer::Catalog& ScriptedCatalog() {
  static const veneer::Catalog catalog = [] {
    auto scanned = veneer::Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = {&kEntry}});
    if (!scanned) throw std::runtime_error(scanned.error().Text());
    return *std::move(scanned);
  }();
  return catalog;
}

veneer::StageAdapter Scripted(const std::string& name, const std::string& kind, const std::vector<std::pair<std::string, double>>& sites,
                              double strength) {
  auto adapter = std::make_shared<veneer::Adapter>();
  adapter->kind = kind;
  adapter->format = "safetensors";
  for (const auto& [site, value] : sites) {
    veneer::ParamValue param;
    param.path = "/value";
    param.d = value;
    adapter->sites.push_back({site, {{}, {param}}, 0, std::nullopt});
  }
  return {name, std::move(adapter), strength, {}};
}

veneer::Composition CompositionOf(const veneer::Base& base, const std::vector<veneer::StageAdapter>& adapters) {
  veneer::Composition composition;
  composition.base_model_hash = veneer::Sha256::Of(base.bytes());
  composition.base_format = "gguf";
  for (const veneer::StageAdapter& adapter : adapters) {
    veneer::AdapterEntry& entry = composition.adapters.emplace_back();
    entry.name = adapter.name;
    entry.kind = adapter.adapter->kind;
    for (const veneer::AdapterSite& site : adapter.adapter->sites) entry.target_layers.push_back(site.site);
  }
  return composition;
}

veneer::Result<std::shared_ptr<const veneer::StagedComposition>> StageScripted(const std::shared_ptr<const veneer::Base>& base,
                                                                               const std::vector<veneer::StageAdapter>& adapters,
                                                                               const veneer::StageOptions& options) {
  return veneer::StageComposition(base, adapters, CompositionOf(*base, adapters), ScriptedCatalog(), options);
}
