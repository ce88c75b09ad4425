// The scale of a module: numerator over denominator or its root, each with exceptions by pattern, in double.
#include <cmath>
#include <string>

#include "tests/support/peft_adapter.h"
#include "tests/support/catch.h"

namespace {

double ScaleOf(const PeftAdapter& adapter, const std::string& site) {
  const auto read = adapter.Read();
  if (!read) FAIL(read.error().Text());
  const veneer::AdapterSite& found = SiteOf(*read, site);
  REQUIRE(found.scale);
  // The report and what the kind gets are the same number.
  for (const veneer::ParamValue& param : found.source.params)
    if (param.path == "/scale") CHECK(param.d == *found.scale);
  return *found.scale;
}
const std::string kQ = "model.layers.0.self_attn.q_proj", kV = "model.layers.1.self_attn.v_proj";

}  // namespace

TEST_CASE("scale: alpha over r, not alpha") {
  CHECK(ScaleOf(LowRank(8).Key("lora_alpha", "16"), kQ) == 2.0);
  CHECK(ScaleOf(LowRank(4).Key("lora_alpha", "0.3"), kQ) == 0.3 / 4);
  CHECK(ScaleOf(LowRank(4).Key("lora_alpha", "-2"), kQ) == -0.5);
}

TEST_CASE("scale: rsLoRA divides by the root of r") {
  CHECK(ScaleOf(LowRank(16).Key("lora_alpha", "16").Key("use_rslora", "true"), kQ) == 4.0);
  CHECK(ScaleOf(LowRank(3).Key("lora_alpha", "1").Key("use_rslora", "true"), kQ) == 1.0 / std::sqrt(3.0));
  CHECK(ScaleOf(LowRank(16).Key("lora_alpha", "16").Key("use_rslora", "false"), kQ) == 1.0);
}

TEST_CASE("scale: an absent alpha is PEFT's default of 8") {
  PeftAdapter adapter = LowRank(4);
  adapter.config.erase("lora_alpha");
  CHECK(ScaleOf(adapter, kQ) == 2.0);
}

TEST_CASE("scale: alpha patterns hold for the modules they match, the first one wins") {
  PeftAdapter adapter = LowRank(4);
  adapter.Key("alpha_pattern", R"({"q_proj": 64})");
  CHECK(ScaleOf(adapter, kQ) == 16.0);
  CHECK(ScaleOf(adapter, kV) == 2.0);
  adapter.Key("alpha_pattern", R"({".*attn.*": 4, "q_proj": 64})");
  CHECK(ScaleOf(adapter, kQ) == 1.0);
  adapter.Key("alpha_pattern", R"({"layers.1.self_attn.v_proj": 2})");
  CHECK(ScaleOf(adapter, kV) == 0.5);
  CHECK(ScaleOf(adapter, "model.layers.0.self_attn.v_proj") == 2.0);
}

TEST_CASE("scale: rank patterns change rank and scale of a module, and the tensors must have that rank") {
  PeftAdapter adapter = LowRank(4);
  adapter.Key("rank_pattern", R"({"q_proj": 2})");
  CHECK(adapter.CodeOf() == 406);
  for (const int layer : {0, 1}) adapter.AddLowRank(Layer(layer, "self_attn.q_proj"), 64, 64, 2);
  CHECK(ScaleOf(adapter, kQ) == 4.0);
  CHECK(ScaleOf(adapter, kV) == 2.0);
  const auto read = adapter.Read();
  REQUIRE(read);
  CHECK(SiteOf(*read, kQ).rank == 2);
  CHECK(SiteOf(*read, kV).rank == 4);
  CHECK(read->rank == 4);  // the largest
}

TEST_CASE("scale: a rank in the file that the configuration does not say is E406, whatever it is") {
  for (const std::uint64_t rank : {1U, 3U, 5U, 8U}) CHECK(LowRank(rank).Key("r", "4").CodeOf() == 406);
  for (const std::uint64_t rank : {1U, 3U, 7U, 8U, 32U}) CHECK(LowRank(rank).CodeOf() == 0);
  CHECK(LowRank(33).CodeOf() == 406);  // above the smaller dimension of v_proj, 32
  for (const char* r : {"0", "-4", "4.5", "65537"}) CHECK(LowRank(4).Key("r", r).CodeOf() == 406);
  CHECK(LowRank(4).Key("r", "\"4\"").CodeOf() == 204);
  CHECK(LowRank(4).Key("rank_pattern", R"({"q_proj": "4"})").CodeOf() == 204);
  CHECK(LowRank(4).Key("rank_pattern", "[4]").CodeOf() == 204);
  CHECK(LowRank(4).Key("rank_pattern", R"({"(": 4})").CodeOf() == 103);
}

TEST_CASE("scale: one that is not finite or outside the kind's bounds is refused") {
  CHECK(LowRank(4).Key("lora_alpha", "1e308").CodeOf() == 213);
  CHECK(LowRank(4).Key("lora_alpha", "null").CodeOf() == 0);
  CHECK(LowRank(4).Key("lora_alpha", "\"8\"").CodeOf() == 204);
}

TEST_CASE("scale: a thousand hostile patterns are refused, not tried") {
  std::string patterns;
  for (int i = 0; i < 1000; ++i) patterns += (i == 0 ? "{\"" : ",\"") + std::string("(a+)+b") + std::to_string(i) + "\":4";
  CHECK(LowRank(4).Key("alpha_pattern", patterns + "}").CodeOf() == 214);
}
