// sparse-delta: what it refuses and says, through the harness and through the host's own checks, and files that others wrote.
#include <cstring>
#include <set>

#include "core/base/file.h"
#include "core/format/safetensors.h"
#include "core/plugin/overlay.h"
#include "tests/plugins/sparse_delta_matrix.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "veneer/import.h"

using namespace plugin_test;

namespace {

constexpr std::uint64_t kOut = 4, kIn = 6;
const SparseMatrix kGood{kOut, kIn, VNR_F32, {{0, 1, 1.0}, {0, 4, 2.0}, {2, 0, 3.0}, {3, 2, 4.0}, {3, 5, 5.0}}};

// The error of bind, or of stage; empty when both pass.
std::string ErrorOf(const Tensors& tensors, std::int32_t code = VNR_E_INVALID, const Params& params = {}) {
  TestHost host;
  Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, kOut, kIn}, tensors, params);
  if (binding.Ready()) return "";
  CHECK(binding.failure.code == code);
  return binding.failure.text;
}
std::string WithRowPtr(const std::vector<double>& row_ptr, std::uint32_t type = VNR_I64) {
  Tensors tensors = kGood.Csr();
  tensors["row_ptr"] = StoreIndices(type, {kOut + 1}, row_ptr);
  return ErrorOf(tensors);
}
std::string WithColumns(const std::vector<double>& columns, std::uint32_t type = VNR_I32) {
  Tensors tensors = kGood.Csr();
  tensors["col_idx"] = StoreIndices(type, {columns.size()}, columns);
  return ErrorOf(tensors);
}
std::string WithIndices(const std::vector<double>& rows, std::vector<double> columns, std::uint32_t type = VNR_I32) {
  Tensors tensors = kGood.Coo(VNR_I32);
  std::vector<double> both = rows;
  both.insert(both.end(), columns.begin(), columns.end());
  tensors["indices"] = StoreIndices(type, {2, rows.size()}, both);
  return ErrorOf(tensors);
}

// The host's generic checks, then bind: code and text, or 0.
std::pair<int, std::string> ThroughHost(const Tensors& tensors, const std::vector<veneer::ParamValue>& params,
                                        std::uint32_t shape_class = VNR_SITE_LINEAR) {
  const vnr_kind& kind = StaticKind("sparse-delta");
  const auto declared = veneer::DeclareKind(kind);
  REQUIRE(declared);
  veneer::OverlaySource source;
  for (const auto& [role, tensor] : tensors)
    source.tensors.push_back({role, {role, tensor.dtype, tensor.dims, std::as_bytes(std::span(tensor.bytes))}});
  source.params = params;
  veneer::MemoryBudget budget(1 << 20);
  auto artifact = veneer::OverlayArtifact::Open(kind, *declared, "adapter x", {}, budget, [](std::uint32_t n, const auto& body) {
    for (std::uint32_t i = 0; i < n; ++i) body(i);
  });
  REQUIRE(artifact);
  veneer::SiteFacts site;
  site.id = "model.layers.0.mlp.up_proj";
  site.shape_class = shape_class;
  site.out = kOut;
  site.in = kIn;
  const auto binding = (*artifact)->Bind(site, source);
  if (binding) return {0, ""};
  return {static_cast<int>(binding.error().code), binding.error().Text()};
}
veneer::ParamValue Text(const std::string& path, const std::string& value) {
  return {.path = path, .type = VNR_PARAM_STRING, .i = 0, .d = 0, .s = value};
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("sparse-delta: exactly one form, and missing indices name the random mask that PEFT would draw") {
  REQUIRE(ErrorOf(kGood.Csr()).empty());
  REQUIRE(ErrorOf(kGood.Coo(VNR_I32)).empty());
  Tensors none = kGood.Csr();
  none.erase("row_ptr");
  CHECK(ErrorOf(none) == "has col_idx, needs exactly one form: row_ptr [out+1] and col_idx [n], or indices [2, n]");
  none.erase("col_idx");
  CHECK(Has(ErrorOf(none), "shira_indices"));
  CHECK(Has(ErrorOf(none), "random mask"));
  Tensors both = kGood.Csr();
  both.merge(kGood.Coo(VNR_I32));
  CHECK(Has(ErrorOf(both), "has row_ptr col_idx indices, needs exactly one form"));
  both.erase("col_idx");
  CHECK(Has(ErrorOf(both), "has row_ptr indices, needs exactly one form"));
  Tensors half = kGood.Csr();
  half.erase("col_idx");
  CHECK(Has(ErrorOf(half), "has row_ptr, needs exactly one form"));
  CHECK(ErrorOf({}) == "tensor values is missing");
}

TEST_CASE("sparse-delta: row_ptr begins with 0, never falls and ends with the number of values") {
  for (const std::uint32_t type : {VNR_I64, VNR_I32, VNR_U32}) CHECK(WithRowPtr({0, 2, 2, 3, 5}, type).empty());
  CHECK(WithRowPtr({1, 2, 2, 3, 5}) == "row_ptr[0] is 1, must be 0");
  CHECK(WithRowPtr({0, 2, 1, 3, 5}) == "row_ptr[2] is 1, must be at least row_ptr[1] = 2");
  CHECK(WithRowPtr({0, 2, 2, 3, 4}) == "row_ptr[4] is 4, must be the number of values, 5");
  CHECK(WithRowPtr({0, 2, 2, 6, 5}) == "row_ptr[3] is 6, allowed 0 to 5 (the number of values)");
  CHECK(WithRowPtr({0, 2, -1, 3, 5}, VNR_I32) == "row_ptr[2] is -1, allowed 0 to 5 (the number of values)");
  CHECK(Has(WithRowPtr({0, 4294967296.0, 2, 3, 5}), "row_ptr[1] is 4294967296, "));
  CHECK(Has(WithRowPtr({0, 2, -9223372036854775808.0, 3, 5}), "row_ptr[2] is -9223372036854775808, "));
}

TEST_CASE("sparse-delta: columns lie in the site and rise within a row") {
  for (const std::uint32_t type : {VNR_I32, VNR_U32, VNR_I64}) CHECK(WithColumns({1, 4, 0, 2, 5}, type).empty());
  CHECK(WithColumns({1, 6, 0, 2, 5}) == "col_idx[1] is 6, allowed 0 to 5 (the columns of the site)");
  CHECK(WithColumns({-1, 4, 0, 2, 5}) == "col_idx[0] is -1, allowed 0 to 5 (the columns of the site)");
  CHECK(Has(WithColumns({1, 4, 0, 2, 4294967295.0}, VNR_U32), "col_idx[4] is 4294967295, "));
  CHECK(Has(WithColumns({1, 4, 0, 2, 4294967298.0}, VNR_I64), "col_idx[4] is 4294967298, "));
  CHECK(WithColumns({4, 4, 0, 2, 5}) == "col_idx[1] is 4, must be above col_idx[0] = 4 in row 0");
  CHECK(WithColumns({1, 4, 0, 5, 2}) == "col_idx[4] is 2, must be above col_idx[3] = 5 in row 3");
}

TEST_CASE("sparse-delta: COO entries lie in the site, f32 ones are whole and exact, and no position stands twice, however far apart") {
  for (const std::uint32_t type : {VNR_I32, VNR_U32, VNR_I64, VNR_F32}) {
    CHECK(WithIndices({0, 0, 2, 3, 3}, {1, 4, 0, 2, 5}, type).empty());
    CHECK(WithIndices({3, 0, 2, 3, 0}, {5, 4, 0, 2, 1}, type).empty());
    CHECK(WithIndices({0, 0, 2, 4, 3}, {1, 4, 0, 2, 5}, type) == "indices[0][3] is 4, allowed 0 to 3 (the rows of the site)");
    CHECK(WithIndices({0, 0, 2, 3, 3}, {6, 4, 0, 2, 5}, type) == "indices[1][0] is 6, allowed 0 to 5 (the columns of the site)");
    CHECK(WithIndices({0, 0, 2, 2, 3}, {1, 4, 0, 0, 5}, type) ==
          "entries 2 and 3 of indices are both (2, 0), each position may stand once");
    CHECK(WithIndices({3, 0, 2, 3, 3}, {5, 4, 0, 2, 5}, type) ==
          "entries 0 and 4 of indices are both (3, 5), each position may stand once");
    if (type != VNR_U32) CHECK(Has(WithIndices({0, -1, 2, 3, 3}, {1, 4, 0, 2, 5}, type), "indices[0][1] is -1"));
  }
  CHECK(WithIndices({0, 0, 2, 3, 3}, {1, 4.5, 0, 2, 5}, VNR_F32) ==
        "indices[1][1] is 4.5 in f32, allowed whole numbers below 16777216, beyond which f32 is not exact; store i32");
  CHECK(Has(WithIndices({0, 0, 2, 3, 3}, {1, 16777216, 0, 2, 5}, VNR_F32), "indices[1][1] is 16777216 in f32"));
  CHECK(Has(WithIndices({0, 0, 2, 3, 3}, {1, 16777215, 0, 2, 5}, VNR_F32), "is 16777215, allowed 0 to 5"));
  // More entries than columns in a row: some position stands twice.
  SparseMatrix crowded{kOut, kIn, VNR_F32, {}};
  for (std::uint64_t i = 0; i < 8; ++i) crowded.entries.push_back({1, (i * 3) % kIn + (i == 7 ? 1 : 0), 1.0});
  CHECK(ErrorOf(crowded.Coo(VNR_I32)) == "row 1 of indices has 8 entries, the site has 6 columns");
}

TEST_CASE("sparse-delta: a value or a scale that is not finite at its strength is refused as NUMERIC with its place") {
  CHECK(ErrorOf(kGood.Csr(), VNR_E_NUMERIC, {{"/scale", 1e5}, {"/strength", 1e38}}) == "strength times scale is not finite in f32");
  SparseMatrix large = kGood;
  large.entries[3].value = 1e38;
  CHECK(ErrorOf(large.Csr(), VNR_E_NUMERIC, {{"/scale", -8.0}}) ==
        "values[3] is 9.99999968e+37, times strength and scale (-8) it is not finite in f32");
  CHECK(ErrorOf(large.Csr(), VNR_E_NUMERIC, {{"/scale", -2.0}}).empty());
}

TEST_CASE("sparse-delta: the host refuses another op, encodings that the tensors are not, foreign types, shapes and sites") {
  const Tensors csr = kGood.Csr(), coo = kGood.Coo(VNR_I32);
  CHECK(ThroughHost(csr, {Text("/op", "add"), Text("/encoding", "csr")}).first == 0);
  CHECK(ThroughHost(coo, {Text("/encoding", "coo")}).first == 0);
  const auto replace = ThroughHost(csr, {Text("/op", "replace")});
  CHECK(replace.first == 213);
  CHECK(Has(replace.second, "one of \"add\""));
  CHECK(ThroughHost(csr, {Text("/encoding", "bitmask")}).first == 213);
  CHECK(Has(ThroughHost(csr, {Text("/encoding", "coo")}).second, "encoding says coo, the tensors are csr"));
  CHECK(Has(ThroughHost(coo, {Text("/encoding", "csr")}).second, "encoding says csr, the tensors are coo"));
  Tensors float_columns = csr;
  float_columns["col_idx"] = StoreIndices(VNR_F32, {5}, {1, 4, 0, 2, 5});
  CHECK(ThroughHost(float_columns, {}).first == 401);
  Tensors short_row_ptr = csr;
  short_row_ptr["row_ptr"] = StoreIndices(VNR_I64, {kOut}, {0, 2, 2, 5});
  CHECK(ThroughHost(short_row_ptr, {}).first == 404);
  Tensors fewer = csr;
  fewer["col_idx"] = StoreIndices(VNR_I32, {4}, {1, 4, 0, 2});
  CHECK(ThroughHost(fewer, {}).first == 404);
  CHECK(ThroughHost(csr, {}, VNR_SITE_EMBEDDING).first == 404);
  const SparseMatrix empty{kOut, kIn, VNR_F16, {}};
  CHECK(ThroughHost(empty.Csr(), {}).first == 0);
  CHECK(ThroughHost(empty.Coo(VNR_I32), {}).first == 0);
}

TEST_CASE("sparse-delta: describe tells entries, density and scale (describe-json)") {
  TestHost host;
  const Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, kOut, kIn}, kGood.Csr(), {{"/scale", 1.5}, {"/strength", 0.5}});
  std::string text;
  const vnr_sink sink{&text, [](void* to, const char* data, std::uint64_t n) { static_cast<std::string*>(to)->append(data, n); }};
  REQUIRE(binding.kind().describe(nullptr, binding.raw(), &sink, nullptr) == VNR_OK);
  CHECK(text == R"({"kind":"sparse-delta","site":"model.layers.3.self_attn.q_proj","nnz":5,"density":0.208333333,"scale":0.75})");
}

namespace {

// The tensors of a file by module and role, the role being what `role_of` makes of a name's suffix.
std::map<std::string, Tensors> Modules(const veneer::FileBytes& bytes, const std::map<std::string, std::string>& role_of) {
  const auto file = veneer::SafetensorsFile::Parse(bytes.bytes());
  REQUIRE(file);
  std::map<std::string, Tensors> modules;
  for (const veneer::TensorView& tensor : file->tensors) {
    const std::size_t dot = tensor.name.rfind('.');
    Stored stored{tensor.dtype, tensor.shape, {}, std::vector<unsigned char>(tensor.bytes.size())};
    std::memcpy(stored.bytes.data(), tensor.bytes.data(), tensor.bytes.size());
    modules[tensor.name.substr(0, dot)][role_of.at(tensor.name.substr(dot))] = std::move(stored);
  }
  return modules;
}
std::vector<float> Delta(const Tensors& tensors, std::uint64_t out, std::uint64_t in, double scale) {
  TestHost host;
  Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in}, tensors, {{"/scale", scale}});
  INFO(binding.failure.text);
  REQUIRE(binding.Ready());
  return binding.Weights(std::vector<float>(out * in, 0.0F));
}
template <class T>
T Word(const Stored& stored, std::uint64_t i) {
  T value;
  std::memcpy(&value, stored.bytes.data() + i * sizeof value, sizeof value);
  return value;
}
bool IsDown(const std::string& module) { return module.ends_with("down_proj"); }

}  // namespace

TEST_CASE("sparse-delta: the adapter that PEFT wrote puts every shira_weight at its shira_indices, and its values are r (in + out)") {
  const auto data = ExternalData();
  if (!data) return;
  const auto bytes = veneer::FileBytes::Map(*data / "stories260k/adapters/shira-r4/adapter_model.safetensors");
  REQUIRE(bytes);
  // The names as the import declaration maps them.
  const vnr_kind& kind = StaticKind("sparse-delta");
  const auto& import = *static_cast<const vnr_import*>(kind.get_extension(&kind, VNR_IMPORT_ID));
  std::map<std::string, std::string> role_of;
  for (std::uint32_t i = 0; i < import.n_tensors; ++i) role_of[import.tensors[i]->suffix] = import.tensors[i]->role;
  CHECK(std::string(import.peft_type) == "SHIRA");
  CHECK(import.rank_symbol == nullptr);
  int modules = 0;
  for (const auto& [module, tensors] : Modules(*bytes, role_of)) {
    INFO(module);
    ++modules;
    const std::uint64_t out = module.ends_with("v_proj") ? 32 : 64, in = IsDown(module) ? 172 : 64, n = 4 * (in + out);
    REQUIRE(tensors.at("values").dims == std::vector<std::uint64_t>{n});
    const std::vector<float> delta = Delta(tensors, out, in, 1.0);
    std::vector<float> expected(out * in, 0.0F);
    for (std::uint64_t e = 0; e < n; ++e) {
      const auto row = Word<std::int32_t>(tensors.at("indices"), e), column = Word<std::int32_t>(tensors.at("indices"), n + e);
      expected[static_cast<std::uint64_t>(row) * in + static_cast<std::uint64_t>(column)] = Word<float>(tensors.at("values"), e);
    }
    CHECK(delta == expected);
  }
  CHECK(modules == 15);
}

TEST_CASE("sparse-delta: the CSR and the COO file of one delta, in f16 and f32, edit alike, and hold what a dense copy holds") {
  const auto data = ExternalData();
  if (!data) return;
  const std::map<std::string, std::string> role_of = {
      {".values", "values"}, {".row_ptr", "row_ptr"}, {".col_idx", "col_idx"}, {".indices", "indices"}};
  const auto csr_bytes = veneer::FileBytes::Map(*data / "stories260k/residual-sparse/sparse-csr.safetensors"),
             coo_bytes = veneer::FileBytes::Map(*data / "stories260k/residual-sparse/sparse-coo.safetensors");
  REQUIRE(csr_bytes);
  REQUIRE(coo_bytes);
  const auto csr = Modules(*csr_bytes, role_of), coo = Modules(*coo_bytes, role_of);
  CHECK(csr.size() == 10);
  REQUIRE(csr.size() == coo.size());
  for (const auto& [module, tensors] : csr) {
    INFO(module);
    const std::uint64_t out = IsDown(module) ? 64 : 32, in = IsDown(module) ? 172 : 64, n = IsDown(module) ? 220 : 40;
    std::vector<float> dense(out * in, 0.0F);
    const Tensors& list = coo.at(module);
    for (std::uint64_t e = 0; e < n; ++e)
      dense[static_cast<std::uint64_t>(Word<std::int32_t>(list.at("indices"), e)) * in +
            static_cast<std::uint64_t>(Word<std::int32_t>(list.at("indices"), n + e))] = 1.5F * Word<float>(list.at("values"), e);
    CHECK(Delta(tensors, out, in, 1.5) == dense);
    CHECK(Delta(list, out, in, 1.5) == dense);
  }
}
