// Hostile and edge manifests: the rows of the design's table, each in TOML and in JSON. Rows about files are in seal_test.cc.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/manifest/composition.h"
#include "core/manifest/manifest.h"
#include "tests/core/manifest/documents.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

std::string Outcome(const Result<Manifest>& result) {
  return result ? "accepted" : fmt::format("E{} {}", static_cast<int>(result.error().code), result.error().at);
}
std::string Toml(const std::string& text) { return Outcome(ParseManifest(text, ManifestSyntax::kToml)); }
std::string Json(const std::string& text) { return Outcome(ParseManifest(text, ManifestSyntax::kJson)); }

// A literal put in place of another; the same literal in both syntaxes.
struct Row {
  std::string name, field, from, to, outcome;
};

void CheckRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(fmt::format("row {}: {} = {}", row.name, row.field, row.to));
    CHECK(Toml(EditToml(row.field, row.from, row.to)) == row.outcome);
    CHECK(Json(EditJson(row.field, row.from, row.to)) == row.outcome);
  }
}

const std::string kStyleHash = "\"sha256:4aa7bc426736ea96f2bc4b0e35ff3867909496e53dc81c09343195e2581543b6\"";
const std::string kTime = "\"2026-01-02T03:04:05Z\"";
constexpr std::string_view kName = "E205 /adapters/0/name";
constexpr std::string_view kRank = "E107 /adapters/0/rank";
constexpr std::string_view kWeight = "E208 /adapters/0/merge_weight";
constexpr std::string_view kHash = "E209 /adapters/0/file_hash";
constexpr std::string_view kTimestamp = "E211 /timestamp_utc";

std::string Repeated(std::size_t n, std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("the unchanged manifest is accepted in both syntaxes", "[manifest][hostile]") {
  CHECK(Toml(VectorToml()) == "accepted");
  CHECK(Json(VectorJson()) == "accepted");
}

TEST_CASE("row 1: a document of 1 MiB and one byte is refused by its size, one byte less is read", "[manifest][hostile]") {
  for (const std::size_t size : {std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
    const std::string outcome = size > std::size_t{1} << 20 ? "E101 " : "accepted";
    CHECK(Toml(std::string(size - VectorToml().size(), ' ') + VectorToml()) == outcome);
    CHECK(Json(std::string(size - VectorJson().size(), ' ') + VectorJson()) == outcome);
  }
}

TEST_CASE("rows 2 and 3: nesting is refused at the ninth level, whatever makes it", "[manifest][hostile]") {
  CHECK(Json(std::string(200'000, '[')).starts_with("E104"));
  CHECK(Toml(std::string(200'000, '[')).starts_with("E104"));
  CHECK(Toml("a = " + std::string(200'000, '[')).starts_with("E104"));
  CHECK(Toml("a = " + Repeated(100'000, "{a=")).starts_with("E104"));
  CHECK(Toml("a" + Repeated(500'000, ".a") + " = 1").starts_with("E104"));
  CHECK(Toml("[a" + Repeated(200'000, " . a") + "]\n").starts_with("E104"));
  CHECK(Json(Repeated(9, "{\"a\":") + "1" + Repeated(9, "}")).starts_with("E104"));
  CHECK(Toml("a.a.a.a.a.a.a.a.a = 1").starts_with("E104"));
  CHECK(Toml("[a.a.a.a]\na.a.a.a.a = 1").starts_with("E104"));
  CHECK(Toml("a = [[[[[[[[1]]]]]]]]").starts_with("E104"));
  // Eight levels are read; what is wrong then is the schema.
  CHECK(Json(Repeated(8, "{\"a\":") + "1" + Repeated(8, "}")) == "E203 /schema");
  CHECK(Toml("a.a.a.a.a.a.a.a = 1") == "E203 /schema");
  CHECK(Toml("a = [[[[[[[1]]]]]]]") == "E203 /schema");
  CHECK(Toml("a = ']]]'\nb = '''[[[[[[[[[[[[\n[[[['''\n# [[[[[[[[[[[[[[[[\nc = \"\\\"[[[[[[[[[[[\"") == "E203 /schema");
}

TEST_CASE("rows 4 and 5: a key twice is refused and named, also when one is escaped", "[manifest][hostile]") {
  CHECK(Json(EditJson("rank", "16", "16, \"rank\": 16")) == "E105 /adapters/0/rank");
  CHECK(Json(EditJson("rank", "16", "16, \"\\u0072ank\": 16")) == "E105 /adapters/0/rank");
  CHECK(Toml(EditToml("rank", "16", "16\nrank = 16")) == "E105 /adapters/0/rank");
  CHECK(Toml(EditToml("rank", "16", "16\n\"\\u0072ank\" = 16")) == "E105 /adapters/0/rank");
  CHECK(Toml(EditToml("rank", "8", "8\nrank = 8")) == "E105 /adapters/1/rank");
  CHECK(Toml(EditToml("sequence", "1", "1\nsequence = 1")) == "E105 /sequence");
  CHECK(Toml(EditToml("version", "\"1\"", "\"1\"\n[quantization]")) == "E105 /quantization");
  CHECK(Toml(EditToml("version", "\"1\"", "\"1\"\n[quantization.x]\n[quantization.x]")) == "E105 /quantization/x");
}

TEST_CASE("rows 6 and 7: bytes that are no clean UTF-8 are refused", "[manifest][hostile]") {
  for (const std::string bad : {"\xC0\xAF", "\xED\xA0\x80", "\xFF", "\\ud800", "\\uDFFF"}) {
    CAPTURE(bad);
    CHECK(Toml(EditToml("tokenizer_id", "\"test-bpe-v1\"", "\"" + bad + "\"")).starts_with("E102"));
    CHECK(Json(EditJson("tokenizer_id", "\"test-bpe-v1\"", "\"" + bad + "\"")).starts_with("E102"));
  }
  CHECK(Toml("\xEF\xBB\xBF" + VectorToml()) == "E102 ");
  CHECK(Json("\xEF\xBB\xBF" + VectorJson()) == "E102 ");
  CHECK(Toml(VectorToml() + std::string(1, '\0')) == "E102 ");
  CHECK(Json(VectorJson() + std::string(1, '\0')) == "E102 ");
  CHECK(Toml(EditToml("tokenizer_id", "\"test-bpe-v1\"", "\"\\U0000d800\"")).starts_with("E102"));
  CHECK(Toml(EditToml("tokenizer_id", "\"test-bpe-v1\"", "'a\\ud800'")) == "E205 /tokenizer_id");  // literal: no escape
}

TEST_CASE("rows 8, 25 and 26: names outside the grammar are refused", "[manifest][hostile]") {
  std::vector<Row> rows;
  for (const std::string name :
       {"st\\u0000yle", "Style", "STYLE", "st\xD0\xB0le", "../../x", "a/b", ".", "..", "-rf", "", "style.", "_x", "a b"})
    rows.push_back({"8/25/26", "name", "\"style\"", "\"" + name + "\"", std::string(kName)});
  rows.push_back({"26", "name", "\"style\"", "\"" + std::string(65, 'a') + "\"", std::string(kName)});
  rows.push_back({"26", "name", "\"style\"", "\"" + std::string(64, 'a') + "\"", "accepted"});
  rows.push_back({"25", "name", "\"style\"", "\"safety\"", "E206 /adapters/1/name"});
  CheckRows(rows);
}

TEST_CASE("row 9: 60,000 elements are refused within the size limit", "[manifest][hostile]") {
  const std::string list = "[0" + Repeated(60'000, ",0") + "]";
  CHECK(Toml(EditToml("target_layers", "[\"model.layers.1.mlp.up_proj\"]", list)) == "E106 /adapters/1/target_layers");
  CHECK(Json(EditJson("target_layers", "[\"model.layers.1.mlp.up_proj\"]", list)) == "E106 /adapters/1/target_layers");
}

TEST_CASE("rows 10 to 12: integers have one form and never wrap", "[manifest][hostile]") {
  std::vector<Row> rows;
  for (const std::string number : {"16.0", "1.6e1", "-1", "18446744073709551616", "18446744073709551615", "9223372036854775808",
                                   "9007199254740992", "-0", "1e3", "1e400"})
    rows.push_back({"10/11", "rank", "16", number, std::string(kRank)});
  rows.push_back({"11", "rank", "16", "9007199254740991", "accepted"});
  rows.push_back({"11", "rank", "16", std::string(2000, '9'), std::string(kRank)});
  rows.push_back({"12", "base_model_size", "17", "1e3", "E107 /base_model_size"});
  rows.push_back({"12", "base_model_size", "17", "\"17\"", "E204 /base_model_size"});
  CheckRows(rows);
  for (const std::string number : {"0x10", "0o20", "0b1", "1_6", "+16", "nan", "inf", "+inf"}) {
    CAPTURE(number);
    CHECK(Toml(EditToml("rank", "16", number)) == kRank);
  }
}

TEST_CASE("rows 13, 14, 17 and 18: a weight that is no exact decimal is refused", "[manifest][hostile]") {
  std::vector<Row> rows;
  for (const std::string weight : {"\"nan\"",
                                   "\"inf\"",
                                   "\"-inf\"",
                                   "-0",
                                   "-0.0",
                                   "\"-0\"",
                                   "-0e5",
                                   "0.70000000000000001",
                                   "\"0.70000000000000001\"",
                                   "1e400",
                                   "1e-400",
                                   "\"1e400\"",
                                   "1e99999999999999999999",
                                   "1000.5",
                                   "-1000.000000001",
                                   "0.0000000001",
                                   "\"\"",
                                   "\" 0.7\"",
                                   "\"0,7\"",
                                   "\"0x1p-1\"",
                                   "\".7\"",
                                   "\"7.\"",
                                   "\"07\""})
    rows.push_back({"13/14/17/18", "merge_weight", "0.70", weight, std::string(kWeight)});
  rows.push_back({"13", "merge_weight", "0.70", "true", "E204 /adapters/0/merge_weight"});
  CheckRows(rows);
  for (const std::string weight : {"nan", "inf", "-inf", "+nan", "0x1", "1_0"}) {
    CAPTURE(weight);
    CHECK(Toml(EditToml("merge_weight", "0.70", weight)) == kWeight);
  }
}

TEST_CASE("row 15: every notation of one weight is one weight", "[manifest][hostile]") {
  for (const std::string weight :
       {"0.70", "7e-1", "0.7", "\"0.7\"", "\"+0.7\"", "\"7E-1\"", "0.07e1", "70.0e-2", "0.700000000000000000000000000"}) {
    CAPTURE(weight);
    const auto toml = ParseManifest(EditToml("merge_weight", "0.70", weight), ManifestSyntax::kToml);
    const auto json = ParseManifest(EditJson("merge_weight", "0.70", weight), ManifestSyntax::kJson);
    REQUIRE(toml);
    REQUIRE(json);
    CHECK(toml->adapters[0].merge_weight.text() == "0.7");
    CHECK(json->adapters[0].merge_weight.text() == "0.7");
  }
  CHECK(ParseManifest(EditToml("merge_weight", "0.70", "+0.7"), ManifestSyntax::kToml)->adapters[0].merge_weight.text() == "0.7");
}

TEST_CASE("row 19: weight 0 is accepted with warning W3 and its place", "[manifest][hostile]") {
  CHECK(Warnings(*ParseManifest(VectorToml(), ManifestSyntax::kToml)).empty());
  const auto manifest = ParseManifest(EditToml("merge_weight", "\"-0.25\"", "0"), ManifestSyntax::kToml);
  REQUIRE(manifest);
  REQUIRE(Warnings(*manifest).size() == 1);
  CHECK(Warnings(*manifest)[0].starts_with("W3 ZERO_WEIGHT at=/adapters/1/merge_weight "));
}

TEST_CASE("rows 21 and 22: unknown fields and schemas are refused, the schema first", "[manifest][hostile]") {
  CheckRows({{"22", "schema", "\"veneer.manifest/1\"", "\"veneer.manifest/2\"", "E201 /schema"},
             {"22", "schema", "\"veneer.manifest/1\"", "2", "E201 /schema"}});
  CHECK(Json(EditJson("rank", "16", "16, \"scale\": 2")) == "E202 /adapters/0/scale");
  CHECK(Toml(EditToml("rank", "16", "16\nscale = 2")) == "E202 /adapters/0/scale");
  const std::string broken = "name = 1\nrank = -1\nscale = 2\n";
  CHECK(Toml("schema = \"veneer.manifest/2\"\nzzz = 1\n[[adapters]]\n" + broken) == "E201 /schema");
  CHECK(Json("{\"zzz\": nul, \"schema\": \"veneer.manifest/2\"}").starts_with("E103"));
  CHECK(Json("[]") == "E204 ");
  CHECK(Json("{}") == "E203 /schema");
  // The one that sorts first, whatever the order in the text.
  CHECK(Json(EditJson("sequence", "1", "1, \"zeta\": 1, \"alpha\": 1")) == "E202 /alpha");
  CHECK(Json(EditJson("sequence", "1", "1, \"a~b/c\": 1")) == "E202 /a~0b~1c");
}

TEST_CASE("row 23: load_order is unique and required, gaps and any order are fine", "[manifest][hostile]") {
  CheckRows({{"23", "load_order", "10", "20", "E207 /adapters/1/load_order"}});
  CHECK(Toml(Replaced(VectorToml(), "load_order = 10\n", "")) == "E203 /adapters/0/load_order");
  CHECK(Json(Replaced(VectorJson(), "\"load_order\": 10,", "")) == "E203 /adapters/0/load_order");
  const auto swapped = ParseManifest(EditToml("load_order", "10", "700"), ManifestSyntax::kToml);
  REQUIRE(swapped);
  CHECK(swapped->adapters[0].name == "safety");
  CHECK(swapped->adapters[0].load_order == 0);
  CHECK(swapped->adapters[0].at == "/adapters/1");
  CHECK(swapped->adapters[1].name == "style");
  CHECK(swapped->adapters[1].load_order == 1);
}

TEST_CASE("row 27: the same adapter twice under one name is refused, under two names accepted", "[manifest][hostile]") {
  const std::string safety_hash = "\"sha256:8433627bcbb19858e3ded864d3ef38fde896989ec7a37d17b60488b446d2228f\"";
  CheckRows({{"27", "file_hash", safety_hash, kStyleHash, "accepted"}});
  const auto both = [&](std::string text, std::string_view name) {
    return Replaced(Replaced(std::move(text), safety_hash, kStyleHash), name, "\"style\"");
  };
  CHECK(Toml(both(VectorToml(), "\"safety\"")) == "E215 /adapters/1");
  CHECK(Json(both(VectorJson(), "\"safety\"")) == "E215 /adapters/1");
  // Other parameters make another adapter, which needs a name of its own.
  CHECK(Toml(both(VectorToml(), "\"safety\"") + "[adapters.params]\nscale = 2\n") == "E206 /adapters/1/name");
}

TEST_CASE("rows 28 and 29: a digest has one spelling and one algorithm", "[manifest][hostile]") {
  const std::string hex = kStyleHash.substr(8, 64);
  std::vector<Row> rows;
  for (const std::string& digest : {"sha256:" + std::string(64, 'A'), "sha256:" + hex.substr(1), "sha256:" + hex + "0",
                                    "sha256:../" + hex.substr(3), "sha256:" + hex + "\\n", hex, std::string()})
    rows.push_back({"28", "file_hash", kStyleHash, "\"" + digest + "\"", std::string(kHash)});
  rows.push_back({"29", "file_hash", kStyleHash, "\"sha512:" + hex + hex + "\"", "E210 /adapters/0/file_hash"});
  rows.push_back({"29", "file_hash", kStyleHash, "\"SHA256:" + hex + "\"", "E210 /adapters/0/file_hash"});
  rows.push_back({"29", "file_hash", kStyleHash, "\"md5:d41d8cd98f00b204e9800998ecf8427e\"", "E210 /adapters/0/file_hash"});
  CheckRows(rows);
}

TEST_CASE("rows 33 and 34: a time that does not exist or is not UTC to the second is refused, a far future accepted",
          "[manifest][hostile]") {
  for (const std::string time :
       {"2026-02-30T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-02T03:04:05+02:00", "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:60Z",
        "2026-01-02T24:00:00Z", "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05", "2026-01-02", "2026-01-02 03:04:05Z",
        "2026-01-02t03:04:05z", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z"}) {
    CAPTURE(time);
    CHECK(Toml(EditToml("timestamp_utc", kTime, time)) == kTimestamp);
    CheckRows({{"33", "timestamp_utc", kTime, "\"" + time + "\"", std::string(kTimestamp)}});
  }
  CHECK(Toml(EditToml("timestamp_utc", kTime, "2026-01-02T03:04:05Z")) == "accepted");
  CHECK(Toml(EditToml("timestamp_utc", kTime, "2024-02-29T23:59:59Z  # a leap day")) == "accepted");
  CheckRows({{"33", "timestamp_utc", kTime, "\"10000-01-01T00:00:00Z\"", std::string(kTimestamp)},
             {"34", "timestamp_utc", kTime, "\"9999-12-31T23:59:59Z\"", "accepted"}});
}

TEST_CASE("rows 35 and 36: no adapters are fine, 65 adapters or 4,097 targets are not", "[manifest][hostile]") {
  const std::string head = VectorToml().substr(0, VectorToml().find("[[adapters]]"));
  CHECK(Toml(head) == "accepted");
  CHECK(Toml("adapters = []\n" + head) == "accepted");
  const auto adapters = [&](int n) {
    std::string text = head;
    for (int i = 0; i < n; ++i)
      text += fmt::format("[[adapters]]\nname = \"a{}\"\nfile_hash = {}\nload_order = {}\nmerge_weight = 1\n", i, kStyleHash, i);
    return text;
  };
  CHECK(Toml(adapters(64)) == "accepted");
  CHECK(Toml(adapters(65)) == "E214 /adapters");
  const auto targets = [](int n) {
    std::string list = "[";
    for (int i = 0; i < n; ++i) list += fmt::format("{}\"s{}\"", i == 0 ? "" : ",", i);
    return list + "]";
  };
  CheckRows({{"36", "target_layers", "[\"model.layers.1.mlp.up_proj\"]", targets(4096), "accepted"},
             {"36", "target_layers", "[\"model.layers.1.mlp.up_proj\"]", targets(4097), "E214 /adapters/1/target_layers"}});
}

TEST_CASE("site names outside the grammar, and one that stands twice, are refused", "[manifest][hostile]") {
  std::vector<Row> rows;
  for (const std::string site : {"", "../x", "a//b", "a/./b", "/a", "a/", "a b", "a\\\\b", "x\\u0000"})
    rows.push_back({"site", "target_layers", "[\"model.layers.1.mlp.up_proj\"]", "[\"" + site + "\"]", "E205 /adapters/1/target_layers/0"});
  rows.push_back(
      {"site", "target_layers", "[\"model.layers.1.mlp.up_proj\"]", "[\"a.b\", \"c\", \"a.b\"]", "E206 /adapters/1/target_layers/2"});
  CheckRows(rows);
}

TEST_CASE("a value outside a closed list, and a fraction outside 0 to 1, are refused", "[manifest][hostile]") {
  CheckRows({{"213", "tied_weights", "\"forbid\"", "\"share\"", "E213 /tied_weights"},
             {"213", "scheme", "\"symmetric\"", "\"odd\"", "E213 /quantization/scheme"},
             {"208", "sparsity", "\"0.5\"", "1.5", "E208 /adapters/1/sparsity"},
             {"208", "sparsity", "\"0.5\"", "-0.5", "E208 /adapters/1/sparsity"},
             {"208", "sparsity", "\"0.5\"", "1", "accepted"}});
}

TEST_CASE("free fields: text and x_ fields are kept, what JSON and TOML could print in two ways is refused", "[manifest][hostile]") {
  const auto manifest =
      ParseManifest("title = \"gr\xC3\xBC\xC3\x9F\"\nx_b = {z = 1, a = [\"x\", 2]}\n" + VectorToml(), ManifestSyntax::kToml);
  REQUIRE(manifest);
  REQUIRE(manifest->extra.size() == 2);
  CHECK(manifest->extra[0] == std::pair<std::string, std::string>("title", "\"gr\xC3\xBC\xC3\x9F\""));
  CHECK(manifest->extra[1] == std::pair<std::string, std::string>("x_b", R"({"a":["x",2],"z":1})"));
  CHECK(Toml("x_b = 1.5\n" + VectorToml()) == "E107 /x_b");
  CHECK(Toml("x_b = true\n" + VectorToml()) == "E204 /x_b");
  CHECK(Toml("x_b = \"\\u0000\"\n" + VectorToml()) == "E205 /x_b");
  CHECK(Toml("X_b = 1\n" + VectorToml()) == "E202 /X_b");
  CHECK(Toml("title = 1\n" + VectorToml()) == "E204 /title");
  CHECK(Toml("title = \"" + std::string(65'536, 'x') + "\"\n" + VectorToml()) == "E214 ");
}
