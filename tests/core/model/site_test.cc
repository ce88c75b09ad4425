#include "core/model/site.h"

#include <string>

#include "core/model/site_names.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

TEST_CASE("site names: GGUF names are translated with and without .weight, biases keep their suffix") {
  const std::pair<const char*, const char*> names[] = {{"blk.3.attn_q", "model.layers.3.self_attn.q_proj"},
                                                       {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj"},
                                                       {"blk.12.attn_v.bias", "model.layers.12.self_attn.v_proj.bias"},
                                                       {"blk.0.attn_output", "model.layers.0.self_attn.o_proj"},
                                                       {"blk.0.ffn_gate", "model.layers.0.mlp.gate_proj"},
                                                       {"blk.0.ffn_up", "model.layers.0.mlp.up_proj"},
                                                       {"blk.0.ffn_down", "model.layers.0.mlp.down_proj"},
                                                       {"blk.0.attn_norm", "model.layers.0.input_layernorm"},
                                                       {"blk.0.ffn_norm", "model.layers.0.post_attention_layernorm"},
                                                       {"token_embd", "model.embed_tokens"},
                                                       {"output_norm.weight", "model.norm"},
                                                       {"output", "lm_head"}};
  for (const auto& [gguf, hf] : names) CHECK(HuggingFaceName(gguf) == hf);
  for (const char* const name : {"", "blk", "blk.", "blk..attn_q", "blk.x.attn_q", "blk.03.attn_q", "blk.-1.attn_q",
                                 "blk.99999999999.attn_q", "blk.1.attn_z", "model.norm", "blk.1.attn_q.weight.weight", ".weight"})
    CHECK_FALSE(HuggingFaceName(name).has_value());
}

TEST_CASE("site table: ids are found as they are, other spellings through Canonical only if the site exists") {
  const auto base = OpenTiny({.n_layers = 2});
  const SiteTable& sites = base->sites();
  CHECK(sites.Find("model.layers.1.mlp.up_proj")->id == "model.layers.1.mlp.up_proj");
  CHECK(sites.Find("blk.1.ffn_up") == nullptr);
  CHECK(sites.Canonical("blk.1.ffn_up") == "model.layers.1.mlp.up_proj");
  CHECK(sites.Canonical("blk.1.ffn_up.weight") == "model.layers.1.mlp.up_proj");
  CHECK(sites.Canonical("model.layers.1.mlp.up_proj") == "model.layers.1.mlp.up_proj");
  CHECK(sites.Canonical("model.layers.1.mlp.up_proj.weight") == "model.layers.1.mlp.up_proj");
  CHECK(sites.Canonical("output") == "lm_head");  // tied: the site exists although the tensor does not
  CHECK_FALSE(sites.Canonical("blk.2.ffn_up").has_value());
  CHECK_FALSE(sites.Canonical("blk.1.attn_q.bias").has_value());
}

}  // namespace
}  // namespace veneer
