// One learned number a module: W' = s W and the bias with it; at strength w the factor is 1 + w (s - 1), linear in weight space.
#include <cmath>

#include "veneer/import.hpp"
#include "veneer/overlay.hpp"

namespace {

using namespace veneer;

// Checkpoints: adapter_config.json with "peft_type": "SCALE", one tensor MODULE.scale_factor [1] for each module.
constexpr vnr_import_rule rules[] = {accept("scale_init")};
constexpr vnr_import_tensor tensors[] = {tensor(".scale_factor", "factor", VNR_BIT(VNR_SITE_LINEAR))};
constexpr auto rule_list = pointers(rules);
constexpr auto tensor_list = pointers(tensors);
constexpr vnr_import peft = import_of("SCALE", R"({"llama":["v_proj"]})", nullptr, nullptr, rule_list, tensor_list);

struct scale : overlay {
  static constexpr const char* id = "example.scale";
  static constexpr const char* summary = "one factor for all outputs of a linear layer";
  static constexpr const char* schema = R"({"type":"object","additionalProperties":false,"properties":{}})";
  static constexpr vnr_role roles[] = {role("factor", 1)};
  static constexpr const vnr_import* import = &peft;

  double w = 1;
  float f = 1;  // 1 + w (s - 1), rounded once

  void bind(const vnr_site&, const source& src) { w = src.strength(); }
  program stage(const stager& st) {
    program p;
    p.flags = w == 0 ? 0u : uint32_t{VNR_SCALES_Y | VNR_EDITS_BIAS};
    p.amplification = 1;
    if (w == 0) return p;
    f = float(1 + w * (double(element(st.get("factor"), 0)) - 1));
    if (!std::isfinite(f)) throw error{VNR_E_NUMERIC, "the factor is not finite at this strength"};
    return p;
  }
  void apply(const vnr_site&, const io& v, uint64_t lane0, uint64_t lane1) const noexcept {
    for (uint32_t t = 0; t < v.T(); t++)
      for (uint64_t lane = lane0; lane < lane1; lane++) v.y(t)[lane] *= f;
  }
  void weight_row(const vnr_site& site, uint64_t, float* row) const {
    for (uint64_t i = 0; i < site.in; i++) row[i] *= f;
  }
  void bias(const vnr_site&, float* b, uint64_t n) const {
    for (uint64_t i = 0; i < n; i++) b[i] *= f;
  }
};

}  // namespace

VENEER_OVERLAY(scale, "example-scale", "1.0.0")
