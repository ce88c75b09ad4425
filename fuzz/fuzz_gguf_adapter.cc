// Any bytes are an adapter of the tiny base or are refused; an accepted one edits sites of the base only, with finite values and scales,
// every tensor whole and of the shape that its role has at its site.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/adapter/gguf_reader.h"
#include "fuzz/adapter_promise.h"
#include "tests/support/tiny_base.h"

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
  ExpectFits(*adapter, *base, catalog);
  return 0;
}
