// veneer/overlay.hpp: what it promises to plugin authors and to the host.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"
#include "tests/support/catch.h"
#include "veneer/overlay.hpp"

extern "C" {
extern const vnr_entry veneer_overlay_entry_v1_dora_sample;
extern const vnr_entry veneer_overlay_entry_v1_odd_kinds;
}

namespace {

// The smallest host: malloc, never cancelled.
vnr_host SmallHost() {
  vnr_host host{};
  host.struct_size = sizeof host;
  host.get_extension = [](const vnr_host*, const char*) -> const void* { return nullptr; };
  host.alloc = [](const vnr_host*, uint64_t bytes, uint64_t align) {
    return std::aligned_alloc(align, (bytes + align - 1) / align * align);
  };
  host.free = [](const vnr_host*, void* data) { std::free(data); };
  host.log = [](const vnr_host*, uint32_t, const char*, uint64_t) {};
  host.cancelled = [](const vnr_host*) -> uint32_t { return 0; };
  host.parallel_for = [](const vnr_host*, uint32_t, void (*)(void*, uint32_t), void*) -> int32_t { return VNR_E_STATE; };
  return host;
}

struct Said {
  int32_t code;
  std::string text;
};

// What the thrower answers at the place it throws.
Said Provoke(int64_t what, int64_t where, uint32_t capacity = 64) {
  const vnr_kind& kind = *veneer_overlay_entry_v1_odd_kinds.kinds[1];
  const vnr_host host = SmallHost();
  const vnr_param params[] = {{sizeof(vnr_param), VNR_PARAM_INT, "/what", what, 0, {}},
                              {sizeof(vnr_param), VNR_PARAM_INT, "/where", where, 0, {}}};
  const vnr_param* const pointers[] = {&params[0], &params[1]};
  const vnr_source source{sizeof source, 0, 2, 0, nullptr, nullptr, pointers};
  const vnr_site site{sizeof site, 0, VNR_SITE_LINEAR, 0, "a.b", 2, 2, 0, UINT32_MAX, 0, VNR_F32};
  const vnr_limits limits{sizeof limits, 1, 32, 2, UINT64_MAX};
  char text[64] = {};
  vnr_err err{sizeof err, 0, capacity, 0, text};
  vnr_artifact* artifact = nullptr;
  vnr_binding* binding = nullptr;
  vnr_program program{};
  program.struct_size = sizeof program;
  float w[4] = {};
  vnr_io io{};
  REQUIRE(kind.open(&kind, &host, &source, &artifact, &err) == VNR_OK);
  int32_t code = kind.bind(artifact, &site, &source, &binding, &err);
  if (code == VNR_OK) code = kind.stage(binding, &limits, nullptr, &program, &err);
  if (code == VNR_OK) code = kind.weight_rows(binding, 0, 1, w, 2, &err);
  if (code == VNR_OK) code = kind.apply(binding, &io, 0, 1);
  kind.unbind(binding);  // NULL when bind failed: allowed
  kind.close(artifact);
  return {code, std::string(text, err.length)};
}

}  // namespace

TEST_CASE("wrapper: the sample of the design makes a complete entry, with derived flags and declared roles") {
  const vnr_entry& entry = veneer_overlay_entry_v1_dora_sample;
  CHECK(std::string(entry.name) == "example-dora");
  CHECK(std::string(entry.version) == "1.0.0");
  REQUIRE(entry.n_kinds == 1);
  const vnr_kind& kind = *entry.kinds[0];
  CHECK(std::string(kind.id) == "example.dora");
  CHECK(std::string(kind.version) == "1.0.0");
  CHECK(kind.flags == VNR_KIND_NEEDS_BASE_ROWS);
  CHECK(kind.site_mask == VNR_BIT(VNR_SITE_LINEAR));
  REQUIRE(kind.n_roles == 3);
  CHECK(std::string(kind.roles[1]->name) == "B");
  CHECK(kind.roles[1]->rank == 2);
  CHECK(kind.roles[1]->dims[0] == VNR_DIM_OUT);
  CHECK(kind.roles[1]->dims[1] == VNR_DIM('r'));
  CHECK(kind.roles[1]->dtype_mask == (VNR_BIT(VNR_F32) | VNR_BIT(VNR_F16) | VNR_BIT(VNR_BF16)));
  CHECK(kind.get_extension(&kind, VNR_IMPORT_ID) == nullptr);
  CHECK(kind.get_extension(&kind, VNR_IMPORT_GGUF_ID) == nullptr);
}

TEST_CASE("wrapper: a kind's import declarations are found under their own ids, other ids give NULL (ext-unknown)") {
  const vnr_kind& kind = *veneer_overlay_entry_v1_odd_kinds.kinds[1];
  const auto* gguf = static_cast<const vnr_import_gguf*>(kind.get_extension(&kind, VNR_IMPORT_GGUF_ID));
  REQUIRE(gguf != nullptr);
  CHECK(gguf->struct_size == 64);
  CHECK(std::string(gguf->adapter_type) == "x");
  CHECK(gguf->numerator_key == nullptr);
  REQUIRE(gguf->n_rules == 1);
  CHECK(std::string(gguf->rules[0]->key) == "adapter.x.name");
  REQUIRE(gguf->n_tensors == 1);
  CHECK(std::string(gguf->tensors[0]->suffix) == ".x");
  CHECK(gguf->tensors[0]->site_mask == 1);
  CHECK(kind.get_extension(&kind, VNR_IMPORT_ID) == nullptr);
  CHECK(kind.get_extension(&kind, "veneer.import.gguf/2") == nullptr);
}

TEST_CASE("wrapper: one plugin may hold several kinds") {
  const vnr_entry& entry = veneer_overlay_entry_v1_odd_kinds;
  REQUIRE(entry.n_kinds == 2);
  CHECK(std::string(entry.kinds[0]->id) == "test.nothing");
  CHECK(std::string(entry.kinds[1]->id) == "test.thrower");
  CHECK(std::string(entry.kinds[1]->version) == "2.5.1");
}

TEST_CASE("wrapper: whatever is thrown, in setup or in a hot call, becomes a code and nothing unwinds (exc-never)") {
  for (const int64_t where : {0, 1, 2, 3}) {
    INFO("where " << where);
    CHECK(Provoke(0, where).code == VNR_E_NUMERIC);
    CHECK(Provoke(1, where).code == VNR_E_NOMEM);
    CHECK(Provoke(2, where).code == VNR_E_INTERNAL);
    CHECK(Provoke(3, where).code == VNR_E_INTERNAL);
    CHECK(Provoke(4, where).code == VNR_E_INTERNAL);  // a thrown VNR_OK is no success
  }
  CHECK(Provoke(0, 1).text == "a coded error");
  CHECK(Provoke(1, 1).text == "out of memory");
  CHECK(Provoke(2, 1).text == "a standard exception");
  CHECK(Provoke(3, 1).text == "unknown exception");
}

TEST_CASE("wrapper: a text is cut between UTF-8 characters (err-text)") {
  CHECK(Provoke(4, 0, 7).text == "\xC3\xA4\xC3\xB6\xC3\xBC");
  CHECK(Provoke(4, 0, 6).text == "\xC3\xA4\xC3\xB6");
  CHECK(Provoke(4, 0, 5).text == "\xC3\xA4\xC3\xB6");
  CHECK(Provoke(4, 0, 2).text.empty());
}

TEST_CASE("wrapper: f16 and bf16 convert exactly, for all 65536 values") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float expected = veneer::kernels::HalfToFloat(half), found = veneer::from_f16(half);
    const float brain = veneer::from_bf16(half), brain_expected = veneer::kernels::Bf16ToFloat(half);
    REQUIRE((std::memcmp(&expected, &found, 4) == 0 || (std::isnan(expected) && std::isnan(found))));
    REQUIRE(std::memcmp(&brain, &brain_expected, 4) == 0);
  }
}

TEST_CASE("wrapper: dot has one order of operations, whatever the alignment, and is near the f64 sum") {
  alignas(64) float a[140], b[140];
  for (int i = 0; i < 140; ++i) {
    a[i] = std::sin(static_cast<float>(i));
    b[i] = std::cos(static_cast<float>(3 * i));
  }
  for (uint64_t n = 0; n <= 100; ++n) {
    double exact = 0, magnitude = 0;
    for (uint64_t i = 0; i < n; ++i) {
      exact += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      magnitude += std::abs(static_cast<double>(a[i]) * static_cast<double>(b[i]));
    }
    const float aligned = veneer::dot(a, b, n);
    CHECK(std::abs(static_cast<double>(aligned) - exact) <= static_cast<double>(n / 8 + 4) * 0x1p-24 * magnitude);
    float shifted_a[140], shifted_b[140];
    std::memcpy(shifted_a + 3, a, n * sizeof(float));
    std::memcpy(shifted_b + 1, b, n * sizeof(float));
    const float shifted = veneer::dot(shifted_a + 3, shifted_b + 1, n);
    CHECK(std::memcmp(&aligned, &shifted, sizeof(float)) == 0);
  }
}
