// Any bytes are an adapter_config.json or are refused; an accepted one targets sites of the base only, with finite scales and ranks in
// range, and takes a bounded time to say so.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/adapter/peft_config.h"
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
  const auto config = veneer::PeftConfig::Parse(std::string_view(reinterpret_cast<const char*>(data), size), catalog, "");
  if (!config) return 0;
  if (const auto targets = config->Targets(*base))
    for (const std::string& target : *targets) FUZZ_EXPECT(base->sites().Find(target) != nullptr);
  for (const veneer::Site& site : base->sites().sites()) {
    const auto scale = config->ScaleOf(site.id);
    if (!scale) break;  // a pattern over its limit, or no finite scale
    if (*scale) FUZZ_EXPECT(std::isfinite(**scale));
    if (const auto rank = config->RankOf(site.id); rank && *rank) FUZZ_EXPECT(**rank >= 1 && **rank <= 65536);
  }
  (void)config->Params();
  return 0;
}
