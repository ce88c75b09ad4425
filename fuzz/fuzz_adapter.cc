// Any bytes are a safetensors adapter of the tiny base or are refused: in veneer's own layout, by the names of one kind, or (first byte
// odd) with a PEFT configuration that targets q_proj, saves modules and replaces tokens. An accepted one fits the base.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "fuzz/adapter_promise.h"
#include "tests/support/tiny_base.h"

namespace {

constexpr std::string_view kConfig =
    R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],"modules_to_save":["norm"],"bias":"all","trainable_token_indices":[7,3]})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const veneer::Catalog catalog = BuiltIn();
  static const std::shared_ptr<const veneer::Base> base = OpenTiny(TinyModel{.n_layers = 1, .biases = true});
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto files = [&] {
    veneer::AdapterFiles opened{InMemory(text), {}};
    if (data[0] % 2 == 1) opened.config = InMemory(kConfig);
    return opened;
  };
  const auto kind = veneer::IdentifyAdapter(files(), catalog);
  const auto adapter = veneer::ReadAdapter(files(), *base, catalog);
  if (!adapter) return 0;
  FUZZ_EXPECT(kind.has_value() && *kind == adapter->kind);
  ExpectFits(*adapter, *base, catalog);
  return 0;
}
