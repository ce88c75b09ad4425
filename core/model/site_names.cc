#include "core/model/site_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace veneer {

std::optional<std::string> HuggingFaceName(std::string_view gguf_name) {
  std::string_view suffix;
  if (gguf_name.ends_with(".weight")) gguf_name.remove_suffix(7);
  if (gguf_name.ends_with(".bias")) {
    suffix = ".bias";
    gguf_name.remove_suffix(suffix.size());
  }
  if (const auto module = std::ranges::find(kGlobalModules, gguf_name, &ModuleName::gguf); module != kGlobalModules.end())
    return fmt::format("{}{}", module->hf, suffix);
  constexpr std::string_view kBlock = "blk.";
  if (!gguf_name.starts_with(kBlock)) return std::nullopt;
  gguf_name.remove_prefix(kBlock.size());
  const std::size_t dot = gguf_name.find('.');
  if (dot == std::string_view::npos || dot == 0 || (dot > 1 && gguf_name[0] == '0')) return std::nullopt;
  std::uint32_t layer = 0;
  const auto [rest, status] = std::from_chars(gguf_name.data(), gguf_name.data() + dot, layer);
  if (status != std::errc{} || rest != gguf_name.data() + dot) return std::nullopt;
  const auto module = std::ranges::find(kLayerModules, gguf_name.substr(dot + 1), &ModuleName::gguf);
  if (module == kLayerModules.end()) return std::nullopt;
  return fmt::format("model.layers.{}.{}{}", layer, module->hf, suffix);
}

}  // namespace veneer
