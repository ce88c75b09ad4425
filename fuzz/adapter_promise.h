// What holds for every adapter that was read, whatever its files: shared by the fuzz targets of the readers.
#ifndef VENEER_FUZZ_ADAPTER_PROMISE_H_
#define VENEER_FUZZ_ADAPTER_PROMISE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/adapter/adapter.h"
#include "core/adapter/site_facts.h"
#include "fuzz/expect.h"

extern "C" {
extern const vnr_entry* const vnr_static_entries[];
extern const std::uint32_t vnr_static_entry_count;
}

// The statically linked kinds.
inline veneer::Catalog BuiltIn() {
  auto catalog = veneer::Catalog::Scan(
      {.directories = {}, .overrides = {}, .static_entries = {vnr_static_entries, vnr_static_entries + vnr_static_entry_count}});
  FUZZ_EXPECT(catalog.has_value());
  return *std::move(catalog);
}

// It edits or replaces something, only sites of the base, every tensor of the shape that its role has there, scales finite, ranks in range.
inline void ExpectFits(const veneer::Adapter& adapter, const veneer::Base& base, const veneer::Catalog& catalog) {
  FUZZ_EXPECT(!adapter.sites.empty() || !adapter.replacements.empty() || !adapter.notes.empty());
  const veneer::KindDecl* kind = catalog.FindDeclaration(adapter.kind);
  FUZZ_EXPECT(kind != nullptr || adapter.sites.empty());
  for (const veneer::AdapterSite& part : adapter.sites) {
    const veneer::Site* site = base.sites().Find(part.site);
    FUZZ_EXPECT(site != nullptr);
    FUZZ_EXPECT(veneer::CheckSource(*kind, veneer::FactsOf(*site), part.source, adapter.shared, "").has_value());
    FUZZ_EXPECT(!part.scale || std::isfinite(*part.scale));
    FUZZ_EXPECT(part.rank <= std::min(site->in, site->out));
  }
  for (const veneer::Replacement& one : adapter.replacements) {
    const veneer::Site* site = base.sites().Find(one.site);
    FUZZ_EXPECT(site != nullptr);
    FUZZ_EXPECT(veneer::CheckReplacement(*site, one).has_value());
    for (const veneer::Replacement::Row& row : one.rows) FUZZ_EXPECT(row.lane < site->out && row.index < one.rows.size());
  }
}

#endif  // VENEER_FUZZ_ADAPTER_PROMISE_H_
