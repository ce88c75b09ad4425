// The contract of sdk/ABI.md that holds for every kind: life cycle, memory, errors, extensions, static registration.
#include <cstring>
#include <set>

#include "tests/plugins/kinds.h"
#include "tests/support/catch.h"
#include "veneer/import.h"

using namespace plugin_test;

TEST_CASE("every kind: the estimate equals the live bytes after stage, the peak holds, unbind returns everything (budget-honest)") {
  for (const auto& [out, in, rank] : {std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>{203, 93, 11}, {1, 1, 1}, {64, 64, 16}})
    for (Example& example : Examples(out, in, rank)) {
      INFO(example.name << " " << out << "x" << in);
      TestHost host;
      {
        Binding binding(host, *example.kind, example.site, example.tensors, example.params);
        const std::uint64_t calls = host.calls();
        REQUIRE(binding.Estimate());
        CHECK(host.calls() == calls);  // before anything is allocated
        REQUIRE(binding.Stage(&example.base));
        CHECK(host.live_bytes() == binding.cost.shared_bytes + binding.cost.resident_bytes);
        CHECK(host.peak_bytes() == binding.cost.shared_bytes + binding.cost.stage_peak_bytes);
      }
      CHECK(host.live_bytes() == 0);
    }
}

TEST_CASE("every kind: a budget one byte short fails in estimate with BUDGET and both figures (budget-refuse)") {
  for (Example& example : Examples(40, 30, 3)) {
    INFO(example.name);
    TestHost host;
    Binding binding(host, *example.kind, example.site, example.tensors, example.params);
    REQUIRE(binding.Estimate());
    const std::uint64_t needed = binding.cost.shared_bytes + binding.cost.stage_peak_bytes + binding.cost.opaque_bytes;
    binding.limits.budget_bytes = needed - 1;
    CHECK_FALSE(binding.Estimate());
    CHECK(binding.failure.code == VNR_E_BUDGET);
    CHECK(binding.failure.text == "needs " + std::to_string(needed) + " bytes, " + std::to_string(needed - 1) + " are allowed");
    binding.limits.budget_bytes = needed;
    CHECK(binding.Estimate());
  }
}

TEST_CASE("every kind: the n-th allocation fails for every n: a clean error, nothing leaks (err-alloc-n)") {
  for (Example& example : Examples(40, 30, 3)) {
    INFO(example.name);
    for (std::uint64_t n = 0;; ++n) {
      TestHost host;
      host.fail_at = n;
      bool is_ready = false;
      {
        Binding binding(host, *example.kind, example.site, example.tensors, example.params);
        is_ready = binding.Ready(&example.base);
        if (!is_ready) {
          CHECK(binding.failure.code == VNR_E_NOMEM);
          CHECK(binding.failure.text.find("the host refused") != std::string::npos);
        }
      }
      CHECK(host.live_bytes() == 0);
      if (is_ready) {
        REQUIRE(n >= 3);  // artifact, binding, at least one buffer
        break;
      }
    }
  }
}

TEST_CASE("every kind: cancelled at any poll of stage: CANCELLED, nothing leaks (err-cancel)") {
  for (Example& example : Examples(40, 30, 3)) {
    INFO(example.name);
    for (std::uint64_t n = 0;; ++n) {
      TestHost host;
      host.cancel_at = n;
      bool is_ready = false;
      {
        Binding binding(host, *example.kind, example.site, example.tensors, example.params);
        is_ready = binding.Ready(&example.base);
        if (!is_ready) CHECK(binding.failure.code == VNR_E_CANCELLED);
      }
      CHECK(host.live_bytes() == 0);
      if (is_ready) {
        REQUIRE(n >= 1);
        break;
      }
    }
  }
}

TEST_CASE("every kind: hot calls and weight_rows before stage, and a second stage, answer STATE (life-order)") {
  for (Example& example : Examples(40, 30, 3)) {
    INFO(example.name);
    TestHost host;
    Binding binding(host, *example.kind, example.site, example.tensors, example.params);
    vnr_io io{};
    io.struct_size = sizeof io;
    float w[40] = {};
    CHECK(example.kind->apply(binding.raw(), &io, 0, 8) == VNR_E_STATE);
    CHECK(example.kind->prepare(binding.raw(), &io, 0, 1) == VNR_E_STATE);
    CHECK(example.kind->transform(binding.raw(), &io, 0, 1) == VNR_E_STATE);
    CHECK(example.kind->weight_rows(binding.raw(), 0, 1, w, 30, nullptr) == VNR_E_STATE);
    REQUIRE(binding.Ready(&example.base));
    CHECK(example.kind->weight_rows(binding.raw(), 40, 1, w, 30, nullptr) == VNR_E_INVALID);
    CHECK(example.kind->weight_rows(binding.raw(), 1, UINT64_MAX, w, 30, nullptr) == VNR_E_INVALID);
    CHECK_FALSE(binding.Stage(&example.base));
    CHECK(binding.failure.code == VNR_E_STATE);
  }
}

TEST_CASE("every kind: error texts respect capacities 0, 1 and 16 and never write past them (err-text)") {
  for (const vnr_entry* entry : StaticEntries())
    for (std::uint32_t k = 0; k < entry->n_kinds; ++k) {
      const vnr_kind& kind = *entry->kinds[k];
      INFO(kind.id);
      TestHost host;
      const vnr_source none{sizeof none, 0, 0, 0, nullptr, nullptr, nullptr};
      vnr_artifact* artifact = nullptr;
      REQUIRE(kind.open(&kind, host.raw(), &none, &artifact, nullptr) == VNR_OK);
      const vnr_site site{sizeof site, 0, VNR_SITE_LINEAR, 0, "model.layers.0.mlp.up_proj", 8, 8, 0, UINT32_MAX, 0, VNR_F32};
      for (const std::uint32_t capacity : {0U, 1U, 16U}) {
        char text[24];
        std::memset(text, 'x', sizeof text);
        vnr_err err{sizeof err, 0, capacity, 99, text};
        vnr_binding* binding = nullptr;
        const std::int32_t code = kind.bind(artifact, &site, &none, &binding, &err);  // required tensors are missing
        CHECK(code == VNR_E_INVALID);
        CHECK(err.code == code);
        CHECK(err.length == (capacity == 0 ? 0 : capacity - 1));
        if (capacity > 0) CHECK(text[err.length] == '\0');
        for (std::uint32_t i = capacity; i < sizeof text; ++i) CHECK(text[i] == 'x');
      }
      CHECK(kind.bind(artifact, &site, &none, nullptr, nullptr) == VNR_E_INVALID);
      kind.close(artifact);
      CHECK(host.live_bytes() == 0);
    }
}

TEST_CASE("every kind: bindings of one artifact are independent and may be destroyed in any order (life-many)") {
  Example example = Examples(24, 16, 2)[0];
  TestHost host;
  std::vector<std::unique_ptr<Binding>> bindings;
  for (int i = 0; i < 200; ++i) {
    bindings.push_back(std::make_unique<Binding>(host, *example.kind, example.site, example.tensors, example.params));
    if (i % 3 != 0) REQUIRE(bindings.back()->Ready());
  }
  std::mt19937 rng(61);
  std::ranges::shuffle(bindings, rng);
  bindings.clear();
  CHECK(host.live_bytes() == 0);
}

TEST_CASE("every kind: structs longer than the plugin knows keep their tails, shorter ones are not overrun (abi-new-host)") {
  for (Example& example : Examples(40, 30, 3)) {
    INFO(example.name);
    TestHost host;
    Binding binding(host, *example.kind, example.site, example.tensors, example.params);
    struct Longer {
      vnr_cost cost;
      unsigned char tail[32];
    } longer{};
    std::memset(longer.tail, 0x5A, sizeof longer.tail);
    longer.cost.struct_size = sizeof longer;
    REQUIRE(example.kind->estimate(binding.raw(), &binding.limits, &longer.cost, nullptr) == VNR_OK);
    CHECK(longer.cost.struct_size == sizeof longer);
    CHECK(longer.cost.resident_bytes > 0);
    for (const unsigned char byte : longer.tail) CHECK(byte == 0x5A);
    vnr_cost shorter{};
    shorter.struct_size = offsetof(vnr_cost, opaque_bytes);
    shorter.opaque_bytes = 0x5A5A;
    REQUIRE(example.kind->estimate(binding.raw(), &binding.limits, &shorter, nullptr) == VNR_OK);
    CHECK(shorter.opaque_bytes == 0x5A5A);
  }
}

TEST_CASE("every kind: an unknown extension id, or a known one with trailing garbage, gives NULL (ext-unknown)") {
  for (const vnr_entry* entry : StaticEntries())
    for (std::uint32_t k = 0; k < entry->n_kinds; ++k) {
      const vnr_kind& kind = *entry->kinds[k];
      INFO(kind.id);
      CHECK(kind.get_extension(&kind, "veneer.import/2") == nullptr);
      CHECK(kind.get_extension(&kind, "veneer.import/1 ") == nullptr);
      CHECK(kind.get_extension(&kind, "") == nullptr);
      const auto* import = static_cast<const vnr_import*>(kind.get_extension(&kind, VNR_IMPORT_ID));
      if (import != nullptr) CHECK(import->struct_size == sizeof(vnr_import));
    }
}

TEST_CASE("every kind: describe gives one JSON object with the kind and, for a binding, its site (describe-json)") {
  Example example = Examples(24, 16, 2)[0];
  TestHost host;
  Binding binding(host, *example.kind, example.site, example.tensors, example.params);
  std::string text;
  const vnr_sink sink{&text, [](void* to, const char* data, std::uint64_t n) { static_cast<std::string*>(to)->append(data, n); }};
  REQUIRE(example.kind->describe(nullptr, nullptr, &sink, nullptr) == VNR_OK);
  CHECK(text == R"({"kind":"lora"})");
  text.clear();
  REQUIRE(example.kind->describe(nullptr, binding.raw(), &sink, nullptr) == VNR_OK);
  CHECK(text == R"({"kind":"lora","site":"model.layers.3.self_attn.q_proj","rank":2,"scale":1.20000005})");
}

TEST_CASE("static registration: the table lists the project's kinds, with complete entries and unique kind ids (entry-sizes)") {
  std::set<std::string> ids;
  for (const vnr_entry* entry : StaticEntries()) {
    CHECK(entry->struct_size == sizeof(vnr_entry));
    CHECK(entry->abi_major == VNR_ABI_MAJOR);
    CHECK(entry->abi_minor_min == 0);
    CHECK(entry->reserved == 0);
    CHECK(std::string(entry->name).starts_with("veneer-"));
    for (std::uint32_t k = 0; k < entry->n_kinds; ++k) {
      CHECK(entry->kinds[k]->struct_size == sizeof(vnr_kind));
      CHECK(std::string(entry->kinds[k]->version) == entry->version);
      CHECK(ids.insert(entry->kinds[k]->id).second);
    }
  }
  CHECK(ids.contains("lora"));
  CHECK(ids.contains("ia3"));
  CHECK(ids.contains("sparse-delta"));
}
