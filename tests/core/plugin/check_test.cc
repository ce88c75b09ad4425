#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/plugin/overlay.h"
#include "tests/support/catch.h"

using veneer::Code;
using veneer::KindDecl;
using veneer::OverlaySource;
using veneer::SiteFacts;

namespace {

constexpr std::uint32_t kFloats = VNR_BIT(VNR_F32) | VNR_BIT(VNR_F16) | VNR_BIT(VNR_BF16);

// Two factors over a rank, an optional bias for sites with one more output, and a table shared by all sites.
KindDecl FactorKind() {
  KindDecl kind;
  kind.id = "org.example.factors";
  kind.version = "1";
  kind.config_schema = R"({"type":"object","additionalProperties":false,"properties":{"scale":{"type":"number","maximum":10}}})";
  kind.site_mask = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING);
  kind.roles = {{"A", VNR_ROLE_ON_LINEAR, kFloats, {VNR_DIM('r'), VNR_DIM_IN}},
                {"B", VNR_ROLE_ON_LINEAR, kFloats, {VNR_DIM_OUT, VNR_DIM('r')}},
                {"bias", VNR_ROLE_OPTIONAL | VNR_ROLE_ON_LINEAR, kFloats, {VNR_DIM_OUT}},
                {"ptr", VNR_ROLE_OPTIONAL, VNR_BIT(VNR_I64), {VNR_DIM_OUT_PLUS_1}},
                {"E", VNR_ROLE_ON_EMBEDDING, kFloats, {VNR_DIM('r'), VNR_DIM_OUT}},
                {"kept", VNR_ROLE_OPTIONAL | VNR_ROLE_ENTRIES, kFloats, {VNR_DIM('n')}},
                {"table", VNR_ROLE_SHARED | VNR_ROLE_OPTIONAL, kFloats, {VNR_DIM('r'), VNR_DIM('k')}}};
  return kind;
}

// Sources whose bytes live here.
class Source {
 public:
  Source& Add(const std::string& role, std::vector<std::uint64_t> shape, std::uint32_t dtype = VNR_F32) {
    std::uint64_t n = veneer::InfoOf(dtype).block_bytes;
    for (const std::uint64_t dim : shape) n *= dim;
    bytes_.push_back(std::make_unique<std::vector<std::byte>>(n));
    source_.tensors.push_back({role, {role, dtype, std::move(shape), *bytes_.back()}});
    return *this;
  }
  Source& Put(std::size_t tensor, std::size_t offset, const auto& value) {
    std::memcpy(bytes_[tensor]->data() + offset, &value, sizeof value);
    return *this;
  }
  Source& Scale(double value) {
    source_.params.push_back({.path = "/scale", .type = VNR_PARAM_NUMBER, .i = 0, .d = value, .s = {}});
    return *this;
  }
  OverlaySource& get() { return source_; }

 private:
  OverlaySource source_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> bytes_;
};

SiteFacts Linear() {
  SiteFacts site;
  site.id = "model.layers.0.x";
  site.out = 6;
  site.in = 4;
  return site;
}

int Checked(Source& source, const OverlaySource& shared = {}, const SiteFacts& site = Linear()) {
  const auto status = veneer::CheckSource(FactorKind(), site, source.get(), shared, "adapter x");
  return status ? 0 : static_cast<int>(status.error().code);
}

Source Good() {
  Source source;
  source.Add("A", {3, 4}).Add("B", {6, 3}, VNR_F16);
  return source;
}

}  // namespace

TEST_CASE("check: a source with all its roles passes, optional ones too, each in its own type") {
  Source source = Good();
  CHECK(Checked(source) == 0);
  source.Add("bias", {6}, VNR_BF16).Add("ptr", {7}, VNR_I64).Scale(2);
  CHECK(Checked(source) == 0);
}

TEST_CASE("check: a missing, unknown or doubled role is E419") {
  Source missing;
  missing.Add("A", {3, 4});
  CHECK(Checked(missing) == 419);
  Source unknown = Good();
  unknown.Add("C", {1});
  CHECK(Checked(unknown) == 419);
  Source doubled = Good();
  doubled.Add("B", {6, 3});
  CHECK(Checked(doubled) == 419);
  Source shared_as_own = Good();
  shared_as_own.Add("table", {3, 2});
  CHECK(Checked(shared_as_own) == 419);
}

TEST_CASE("check: one element too many or too few in any dimension is E404 and both shapes are named") {
  for (const auto& [role, shape] : std::vector<std::pair<std::string, std::vector<std::uint64_t>>>{
           {"A", {3, 5}}, {"A", {3, 3}}, {"A", {4, 4}}, {"A", {12}}, {"A", {3, 4, 1}}, {"B", {7, 3}}, {"bias", {7}}}) {
    Source source;
    source.Add(role, shape);
    if (role != "A") source.Add("A", {3, 4});
    if (role != "B") source.Add("B", {6, 3});
    const auto status = veneer::CheckSource(FactorKind(), Linear(), source.get(), {}, "adapter x");
    REQUIRE_FALSE(status);
    CHECK(status.error().code == Code::SHAPE_MISMATCH);
  }
  Source source;
  source.Add("A", {3, 5}).Add("B", {6, 3});
  const auto status = veneer::CheckSource(FactorKind(), Linear(), source.get(), {}, "adapter x");
  CHECK(status.error().Text().find("[3, 5]") != std::string::npos);
  CHECK(status.error().Text().find("[r, in]") != std::string::npos);
  CHECK(status.error().Text().find("in = 4") != std::string::npos);
}

TEST_CASE("check: one more than the output is one more, not the output") {
  for (const std::uint64_t n : {6U, 7U, 8U}) {
    Source source = Good();
    source.Add("ptr", {n}, VNR_I64);
    CHECK(Checked(source) == (n == 7 ? 0 : 404));
  }
}

TEST_CASE("check: a symbol that counts entries may be 0, and at most as large as the site") {
  for (const std::uint64_t n : {0U, 1U, 23U, 24U, 25U}) {  // the site is 6 x 4
    Source source = Good();
    source.Add("kept", {n});
    CHECK(Checked(source) == (n <= 24 ? 0 : 404));
  }
  SiteFacts large = Linear();
  large.out = 70'000;
  Source source;
  source.Add("A", {3, 4}).Add("B", {70'000, 3}).Add("kept", {65'537});
  CHECK(Checked(source, {}, large) == 0);
}

TEST_CASE("check: a symbol is one number over all roles of a site, shared ones too, and never 0 or above 65536") {
  Source other;
  other.Add("A", {3, 4}).Add("B", {6, 2});
  CHECK(Checked(other) == 404);
  Source shared;
  shared.Add("table", {3, 2});
  Source source = Good();
  CHECK(Checked(source, shared.get()) == 0);
  Source other_shared;
  other_shared.Add("table", {4, 2});
  CHECK(Checked(source, other_shared.get()) == 404);
  Source empty;
  empty.Add("A", {0, 4}).Add("B", {6, 0});
  CHECK(Checked(empty) == 404);
  for (const std::uint64_t rank : {65536U, 65537U}) {
    Source wide;
    wide.Add("A", {rank, 4}).Add("B", {6, rank});
    CHECK(Checked(wide) == (rank == 65536 ? 0 : 404));
  }
  CHECK(veneer::SymbolValue(FactorKind(), source.get(), 'r') == 3);
  CHECK(veneer::SymbolValue(FactorKind(), source.get(), 'k') == 0);
}

TEST_CASE("check: roles belong to site classes") {
  SiteFacts table = Linear();
  table.shape_class = VNR_SITE_EMBEDDING;
  Source source;
  source.Add("E", {2, 6});
  CHECK(Checked(source, {}, table) == 0);
  CHECK(Checked(source) == 404);  // on a linear site
  Source factors = Good();
  CHECK(Checked(factors, {}, table) == 404);
  SiteFacts vector = Linear();
  vector.shape_class = VNR_SITE_VECTOR;
  CHECK(Checked(source, {}, vector) == 404);  // the kind does not serve vectors
}

TEST_CASE("check: a type outside the mask is E401, a byte count that does not fit the shape E403") {
  Source source;
  source.Add("A", {3, 4}, VNR_F64).Add("B", {6, 3});
  CHECK(Checked(source) == 401);
  Source cut = Good();
  cut.get().tensors[0].tensor.bytes = cut.get().tensors[0].tensor.bytes.first(47);
  CHECK(Checked(cut) == 403);
  Source wraps = Good();
  wraps.get().tensors[0].tensor.shape = {std::uint64_t{1} << 32, std::uint64_t{1} << 32};
  CHECK(Checked(wraps) == 404);
}

TEST_CASE("check: an infinity or NaN anywhere in a float tensor is E411, whatever its type") {
  const auto bad = [](std::uint32_t dtype, const auto& value, std::size_t index) {
    Source source;
    source.Add("A", {3, 4}, dtype).Add("B", {6, 3});
    REQUIRE(Checked(source) == 0);
    source.Put(0, index * sizeof value, value);
    return Checked(source);
  };
  CHECK(bad(VNR_F32, std::numeric_limits<float>::quiet_NaN(), 0) == 411);
  CHECK(bad(VNR_F32, -std::numeric_limits<float>::infinity(), 11) == 411);
  CHECK(bad(VNR_F32, std::numeric_limits<float>::max(), 11) == 0);
  CHECK(bad(VNR_F16, std::uint16_t{0xFC00}, 11) == 411);
  CHECK(bad(VNR_F16, std::uint16_t{0x7BFF}, 11) == 0);
  CHECK(bad(VNR_BF16, std::uint16_t{0x7F81}, 5) == 411);
  CHECK(bad(VNR_BF16, std::uint16_t{0x7F7F}, 5) == 0);
  Source shared;
  shared.Add("table", {3, 2}).Put(0, 4, std::numeric_limits<float>::infinity());
  Source source = Good();
  CHECK(Checked(source, shared.get()) == 411);
  CHECK(veneer::CheckShared(FactorKind(), shared.get(), "adapter x").error().code == Code::NOT_FINITE);
}

TEST_CASE("check: parameters obey the kind's schema") {
  Source source = Good();
  source.Scale(11);
  CHECK(Checked(source) == 213);
}
