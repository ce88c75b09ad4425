#include "core/plugin/kind_decl.h"

#include <string>

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
  vnr_kind larger = Raw();
  larger.struct_size = sizeof(vnr_kind) + 64;  // a newer minor version's table
  CHECK(veneer::DeclareKind(larger));
}

TEST_CASE("kind: each rule of a declaration refuses its breach") {
  const auto refused = [](const char* rule, const auto& breach) {
    CAPTURE(rule);
    KindDecl kind = Good();
    REQUIRE(veneer::CheckKind(kind, ""));
    breach(kind);
    const auto status = veneer::CheckKind(kind, "");
    REQUIRE_FALSE(status);
    CHECK(status.error().code == Code::PLUGIN_FAULT);
  };
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
}
