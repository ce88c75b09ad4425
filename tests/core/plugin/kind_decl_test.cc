#include "core/plugin/kind_decl.h"

#include <string>
#include <string_view>
#include <vector>

#include "tests/core/plugin/test_plugins.h"
#include "tests/support/catch.h"

using veneer::Code;
using veneer::KindDecl;

namespace {

KindDecl Good() {
  auto kind = veneer::DeclareKind(*veneer_overlay_entry_v1_offset.kinds[0]);
  REQUIRE(kind);
  return *kind;
}

// A copy of the C kind, to break.
vnr_kind Raw() { return *veneer_overlay_entry_v1_offset.kinds[0]; }

// `kind` passes as it is, and is a fault once `breach` has changed it.
template <class Breach>
void CheckRefused(KindDecl kind, const char* rule, const Breach& breach) {
  CAPTURE(rule);
  REQUIRE(veneer::CheckKind(kind, ""));
  breach(kind);
  const auto status = veneer::CheckKind(kind, "");
  CHECK_FALSE(status);
  if (!status) CHECK(status.error().code == Code::PLUGIN_FAULT);
}

// A kind with a rank, whose GGUF declaration uses every field.
KindDecl GoodGguf() {
  KindDecl kind = Good();
  kind.site_mask = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING);
  kind.roles.push_back({"a", VNR_ROLE_OPTIONAL, VNR_BIT(VNR_F32), {VNR_DIM('r'), VNR_DIM_IN}});
  kind.roles.push_back({"s", VNR_ROLE_SHARED, VNR_BIT(VNR_F32), {7}});
  kind.import_gguf = veneer::GgufImportDecl{
      "x",
      "r",
      "/scale",
      "adapter.x.alpha",
      {{VNR_CFG_REFUSE, "adapter.x.bad", std::nullopt, "why \"so\""}, {VNR_CFG_ACCEPT, "adapter.x.name", std::nullopt, ""}},
      {{0, VNR_BIT(VNR_SITE_LINEAR), ".a", "a"}, {VNR_IMPORT_GGUF_TRANSPOSED, VNR_BIT(VNR_SITE_EMBEDDING), ".a", "a"}}};
  return kind;
}

// What a plugin hands out is followed no further than it says: get_extension of the kind below answers with this.
vnr_import_gguf g_import_gguf;
veneer::Result<KindDecl> DeclareWith(const vnr_import_gguf& import) {
  g_import_gguf = import;
  vnr_kind kind = Raw();
  kind.get_extension = [](const vnr_kind*, const char* id) -> const void* {
    return std::string_view(id) == VNR_IMPORT_GGUF_ID ? &g_import_gguf : nullptr;
  };
  return veneer::DeclareKind(kind);
}

}  // namespace

TEST_CASE("kind: a declaration in C becomes values") {
  const KindDecl kind = Good();
  CHECK(kind.id == "org.example.offset");
  CHECK(kind.flags == VNR_KIND_ADDITIVE);
  CHECK(kind.site_mask == VNR_BIT(VNR_SITE_LINEAR));
  REQUIRE(kind.roles.size() == 1);
  CHECK(kind.roles[0].dims == std::vector<std::uint32_t>{VNR_DIM_OUT});
  REQUIRE(kind.import);
  CHECK(kind.import->params.at(0).default_json == "1.0");
  REQUIRE(kind.import_gguf);
  CHECK(kind.import_gguf->adapter_type == "offset");
  CHECK(kind.import_gguf->scale_param.empty());
  CHECK(kind.import_gguf->rules.at(0).action == VNR_CFG_REFUSE);
  CHECK(kind.import_gguf->rules.at(0).text == "offsets stand still");
  CHECK(kind.import_gguf->tensors == std::vector<veneer::GgufImportTensor>{{0, VNR_BIT(VNR_SITE_LINEAR), ".offset", "v"}});
  CHECK(kind.FindRole("v") == &kind.roles[0]);
  CHECK(kind.FindRole("w") == nullptr);
}

TEST_CASE("kind: a table that is too small or lacks a function is a fault") {
  vnr_kind small = Raw();
  small.struct_size = sizeof(vnr_kind) - 8;
  CHECK_FALSE(veneer::DeclareKind(small));
  vnr_kind hole = Raw();
  hole.weight_rows = nullptr;
  const auto refused = veneer::DeclareKind(hole);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::PLUGIN_FAULT);
  vnr_kind no_id = Raw();
  no_id.id = nullptr;
  CHECK_FALSE(veneer::DeclareKind(no_id));
  vnr_kind no_roles = Raw();
  no_roles.roles = nullptr;
  CHECK_FALSE(veneer::DeclareKind(no_roles));
  vnr_kind plain = Raw();
  plain.get_extension = nullptr;  // a kind without extensions
  const auto accepted = veneer::DeclareKind(plain);
  REQUIRE(accepted);
  CHECK_FALSE(accepted->import);
  CHECK_FALSE(accepted->import_gguf);
  vnr_kind larger = Raw();
  larger.struct_size = sizeof(vnr_kind) + 64;  // a newer minor version's table
  CHECK(veneer::DeclareKind(larger));
}

TEST_CASE("kind: each rule of a declaration refuses its breach") {
  const auto refused = [](const char* rule, const auto& breach) { CheckRefused(Good(), rule, breach); };
  refused("id", [](KindDecl& kind) { kind.id = "Has Space"; });
  refused("version", [](KindDecl& kind) { kind.version = ""; });
  refused("summary", [](KindDecl& kind) { kind.summary = "bell\a"; });
  refused("no site class", [](KindDecl& kind) { kind.site_mask = 0; });
  refused("unknown site class", [](KindDecl& kind) { kind.site_mask = 8; });
  refused("role twice", [](KindDecl& kind) { kind.roles.push_back(kind.roles[0]); });
  refused("role without a name", [](KindDecl& kind) { kind.roles[0].name.clear(); });
  refused("role without a type", [](KindDecl& kind) { kind.roles[0].dtype_mask = 0; });
  refused("role of a block type", [](KindDecl& kind) { kind.roles[0].dtype_mask = VNR_BIT(VNR_Q4_0); });
  refused("rank 5", [](KindDecl& kind) { kind.roles[0].dims.assign(5, 1); });
  refused("constant 0", [](KindDecl& kind) { kind.roles[0].dims = {0}; });
  refused("symbol that is no letter", [](KindDecl& kind) { kind.roles[0].dims = {VNR_DIM('1')}; });
  refused("unknown symbol", [](KindDecl& kind) { kind.roles[0].dims = {VNR_DIM_OUT_PLUS_1 + 1}; });
  refused("schema", [](KindDecl& kind) { kind.config_schema = "{}"; });
  refused("peft_type", [](KindDecl& kind) { kind.import->peft_type.clear(); });
  refused("default targets", [](KindDecl& kind) { kind.import->default_targets = R"({"llama":"q"})"; });
  refused("rank symbol of no role", [](KindDecl& kind) { kind.import->rank_symbol = "r"; });
  refused("rule action", [](KindDecl& kind) { kind.import->rules[0].action = 4; });
  refused("refusal without a reason", [](KindDecl& kind) { kind.import->rules[0].action = VNR_CFG_REFUSE; });
  refused("rule values", [](KindDecl& kind) { kind.import->rules[0].values = "true"; });
  refused("tensor of no role", [](KindDecl& kind) { kind.import->tensors[0].role = "w"; });
  refused("shared tensor of a site's role", [](KindDecl& kind) { kind.import->tensors[0].flags = VNR_IMPORT_SHARED; });
  refused("condition without a key", [](KindDecl& kind) { kind.import->tensors[0].flags = VNR_IMPORT_WHEN_LISTED; });
  refused("parameter outside the schema", [](KindDecl& kind) { kind.import->params[0].param = "/other"; });
  refused("parameter of another type", [](KindDecl& kind) { kind.import->params[0].type = VNR_PARAM_INT; });
  refused("default outside the schema", [](KindDecl& kind) { kind.import->params[0].default_json = "\"x\""; });
  refused("scale without a parameter",
          [](KindDecl& kind) { kind.import->scale = veneer::ImportScale{"/none", "a", "", "r", "", "", 1, 1}; });
  refused("scale that divides by nothing",
          [](KindDecl& kind) { kind.import->scale = veneer::ImportScale{"/scale", "a", "", "r", "", "", 1, 0}; });
}

TEST_CASE("kind: each rule of a GGUF declaration refuses its breach") {
  const auto refused = [](const char* rule, const auto& breach) {
    CheckRefused(GoodGguf(), rule, [&breach](KindDecl& kind) { breach(*kind.import_gguf, kind); });
  };
  using Gguf = veneer::GgufImportDecl;
  refused("adapter_type", [](Gguf& gguf, KindDecl&) { gguf.adapter_type.clear(); });
  refused("adapter_type that rings", [](Gguf& gguf, KindDecl&) { gguf.adapter_type = "x\a"; });
  refused("rank symbol of no role", [](Gguf& gguf, KindDecl&) { gguf.rank_symbol = "q"; });
  refused("scale without a numerator", [](Gguf& gguf, KindDecl&) { gguf.numerator_key.clear(); });
  refused("numerator without a scale", [](Gguf& gguf, KindDecl&) { gguf.scale_param.clear(); });
  refused("scale outside the schema", [](Gguf& gguf, KindDecl&) { gguf.scale_param = "/other"; });
  refused("scale without a rank", [](Gguf& gguf, KindDecl&) { gguf.rank_symbol.clear(); });
  refused("rule that selects", [](Gguf& gguf, KindDecl&) { gguf.rules[1].action = VNR_CFG_SELECT; });
  refused("rule with values", [](Gguf& gguf, KindDecl&) { gguf.rules[1].values = "[1]"; });
  refused("rule without a key", [](Gguf& gguf, KindDecl&) { gguf.rules[1].key.clear(); });
  refused("rule with an unknown action", [](Gguf& gguf, KindDecl&) { gguf.rules[1].action = 9; });
  refused("refusal without a reason", [](Gguf& gguf, KindDecl&) { gguf.rules[0].text.clear(); });
  refused("two rules for a key", [](Gguf& gguf, KindDecl&) { gguf.rules[1].key = gguf.rules[0].key; });
  refused("rule for the numerator", [](Gguf& gguf, KindDecl&) { gguf.rules[1].key = gguf.numerator_key; });
  refused("no tensor", [](Gguf& gguf, KindDecl&) { gguf.tensors.clear(); });
  refused("tensor without a suffix", [](Gguf& gguf, KindDecl&) { gguf.tensors[0].suffix.clear(); });
  refused("tensor of no role", [](Gguf& gguf, KindDecl&) { gguf.tensors[0].role = "w"; });
  refused("tensor of a shared role", [](Gguf& gguf, KindDecl&) { gguf.tensors[0].role = "s"; });
  refused("tensor with an unknown flag", [](Gguf& gguf, KindDecl&) { gguf.tensors[0].flags = 2; });
  refused("tensor of no site class", [](Gguf& gguf, KindDecl&) { gguf.tensors[0].site_mask = 0; });
  refused("tensor of an unknown site class", [](Gguf& gguf, KindDecl&) { gguf.tensors[0].site_mask = 9; });
  refused("one suffix, two roles", [](Gguf& gguf, KindDecl&) { gguf.tensors[1].site_mask = 3; });
  refused("one dimension to exchange", [](Gguf& gguf, KindDecl&) { gguf.tensors[1].role = "v"; });
  refused("role of three dimensions", [](Gguf&, KindDecl& kind) { kind.roles[1].dims.push_back(2); });
  refused("role without dimensions", [](Gguf& gguf, KindDecl& kind) { kind.roles[0].dims.clear(), gguf.tensors[0].role = "v"; });
  refused("role of row pointers", [](Gguf&, KindDecl& kind) { kind.roles[1].dims[1] = VNR_DIM_OUT_PLUS_1; });
  refused("role of indices", [](Gguf&, KindDecl& kind) { kind.roles[1].dtype_mask = VNR_BIT(VNR_I32); });
}

TEST_CASE("kind: a GGUF declaration that is too small, too long or has holes is a fault, not a crash") {
  const vnr_import_gguf good = *static_cast<const vnr_import_gguf*>(Raw().get_extension(nullptr, VNR_IMPORT_GGUF_ID));
  REQUIRE(DeclareWith(good));
  const auto refused = [&good](const auto& breach) {
    vnr_import_gguf import = good;
    breach(import);
    const auto kind = DeclareWith(import);
    REQUIRE_FALSE(kind);
    CHECK(kind.error().code == Code::PLUGIN_FAULT);
    CHECK(kind.error().at.find("import_gguf") != std::string::npos);
  };
  static const vnr_import_rule* const no_rules[] = {nullptr};
  static const vnr_import_gguf_tensor* const no_tensors[] = {nullptr};
  static const vnr_import_rule small_rule = {8, VNR_CFG_ACCEPT, "k", nullptr, nullptr};
  static const vnr_import_rule* const small_rules[] = {&small_rule};
  static const vnr_import_gguf_tensor small_tensor = {24, 0, 1, 0, ".offset", "v"};
  static const vnr_import_gguf_tensor* const small_tensors[] = {&small_tensor};
  static const vnr_import_rule broken_rule = {sizeof(vnr_import_rule), VNR_CFG_ACCEPT, "k", "[", nullptr};
  static const vnr_import_rule* const broken_rules[] = {&broken_rule};
  refused([](vnr_import_gguf& import) { import.struct_size = 56; });
  refused([](vnr_import_gguf& import) { import.adapter_type = nullptr; });
  refused([](vnr_import_gguf& import) { import.rules = nullptr; });
  refused([](vnr_import_gguf& import) { import.tensors = nullptr; });
  refused([](vnr_import_gguf& import) { import.n_rules = 257; });
  refused([](vnr_import_gguf& import) { import.n_tensors = UINT32_MAX; });
  refused([](vnr_import_gguf& import) { import.rules = no_rules; });
  refused([](vnr_import_gguf& import) { import.tensors = no_tensors; });
  refused([](vnr_import_gguf& import) { import.rules = small_rules; });
  refused([](vnr_import_gguf& import) { import.tensors = small_tensors; });
  refused([](vnr_import_gguf& import) { import.rules = broken_rules; });
}

TEST_CASE("kind: a declaration survives the card's JSON in every field") {
  KindDecl kind = Good();
  kind.flags = VNR_KIND_NEEDS_BASE_ROWS | VNR_KIND_BORROWS_TENSORS | (1u << 20);  // a flag of a newer minor version
  kind.site_mask = 7;
  kind.roles.push_back({"s",
                        VNR_ROLE_SHARED | VNR_ROLE_OPTIONAL | VNR_ROLE_ENTRIES | VNR_ROLE_ON_VECTOR,
                        VNR_BIT(VNR_BF16) | VNR_BIT(VNR_BOOL),
                        {VNR_DIM('r'), VNR_DIM_IN_PLUS_1, VNR_DIM_OUT_PLUS_1, 7}});
  kind.import->rank_symbol = "r";
  kind.import->scale = veneer::ImportScale{"/scale", "alpha", "alpha_pattern", "r", "rank_pattern", "use_root", 0.1, 8};
  kind.import->rules.push_back({VNR_CFG_BASE_CHANGED, "init", R"(["a*",null,true,1.50])", "why \"so\""});
  kind.import->tensors.push_back({VNR_IMPORT_WHEN_NOT_LISTED, 1, ".l", "v", "listed", R"({"llama":["x"]})"});
  kind.import->tensors.push_back({VNR_IMPORT_SHARED, 0, "shared", "s", "", ""});
  const auto json = veneer::ParseJson(KindToJson(kind), {.depth = 12});
  REQUIRE(json);
  const auto back = veneer::KindFromJson(*json);
  if (!back) FAIL(back.error().Text());
  CHECK(*back == kind);
  const KindDecl gguf = GoodGguf();
  const auto gguf_json = veneer::ParseJson(KindToJson(gguf), {.depth = 12});
  REQUIRE(gguf_json);
  const auto gguf_back = veneer::KindFromJson(*gguf_json);
  if (!gguf_back) FAIL(gguf_back.error().Text());
  CHECK(*gguf_back == gguf);
}

TEST_CASE("kind: a card's kind with a missing, unknown or mistyped member is refused") {
  const std::string good = KindToJson(Good());
  const auto with = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto json = veneer::ParseJson(text, {.depth = 12});
    REQUIRE(json);
    return veneer::KindFromJson(*json);
  };
  CHECK(with("\"summary\"", "\"summary\""));
  CHECK(with("\"summary\"", "\"sumary\"").error().code == Code::FIELD_MISSING);
  CHECK(with("{\"id\"", "{\"more\":1,\"id\"").error().code == Code::FIELD_UNKNOWN);
  CHECK(with("[\"linear\"]", "[\"cubic\"]").error().code == Code::VALUE_UNKNOWN);
  CHECK(with("[\"linear\"]", "1").error().code == Code::FIELD_TYPE);
  CHECK(with("[\"out\"]", "[-1]").error().code == Code::NUMBER_FORM);
  CHECK(with("[\"out\"]", "[4294967295]").error().code == Code::LIMIT);
  CHECK(with("[\"out\"]", "[0]").error().code == Code::PLUGIN_FAULT);
  CHECK(with("\"adapter_type\"", "\"adapter_kind\"").error().code == Code::FIELD_MISSING);
  CHECK(with("{\"adapter_type\"", "{\"more\":1,\"adapter_type\"").error().code == Code::FIELD_UNKNOWN);
  CHECK(with("\"import_gguf\":{", "\"import_gguf\":{\"scale_param\":\"/scale\",").error().code == Code::PLUGIN_FAULT);
}
