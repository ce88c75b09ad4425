// Any bytes are an adapter of the tiny base or are refused; an accepted one edits sites of the base only, with finite values and scales,
// every tensor whole and of the shape that its role has at its site.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "core/adapter/gguf_reader.h"
#include "core/adapter/site_facts.h"
#include "fuzz/expect.h"
#include "tests/support/tiny_base.h"

extern "C" {
extern const vnr_entry* const vnr_static_entries[];
extern const std::uint32_t vnr_static_entry_count;
}

namespace {

veneer::Catalog BuiltIn() {
  auto catalog = veneer::Catalog::Scan(
      {.directories = {}, .overrides = {}, .static_entries = {vnr_static_entries, vnr_static_entries + vnr_static_entry_count}});
  FUZZ_EXPECT(catalog.has_value());
  return *std::move(catalog);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const veneer::Catalog catalog = BuiltIn();
  static const std::shared_ptr<const veneer::Base> base = OpenTiny(TinyModel{.n_layers = 1});
  if (size == 0) return 0;  // no file is empty: opening refuses it
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto kind = veneer::IdentifyGgufAdapter(InMemory(text), catalog, "");
  const auto adapter = veneer::ReadGgufAdapter({InMemory(text), {}}, *base, catalog, "");
  if (!adapter) return 0;
  FUZZ_EXPECT(kind.has_value() && *kind == adapter->kind);
  FUZZ_EXPECT(!adapter->sites.empty());
  for (const veneer::KindDecl* declared : catalog.GgufImporters()) {
    if (declared->id != adapter->kind) continue;
    for (const veneer::AdapterSite& part : adapter->sites) {
      const veneer::Site* site = base->sites().Find(part.site);
      FUZZ_EXPECT(site != nullptr);
      FUZZ_EXPECT(veneer::CheckSource(*declared, veneer::FactsOf(*site), part.source, adapter->shared, "").has_value());
      FUZZ_EXPECT(!part.scale || std::isfinite(*part.scale));
      FUZZ_EXPECT(part.rank <= std::min(site->in, site->out));
    }
  }
  return 0;
}
