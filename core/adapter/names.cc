#include "core/adapter/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace veneer {
namespace {

constexpr std::size_t kMaxListed = 10;

std::string FirstOf(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kMaxListed, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), names.size() > kMaxListed ? ", …" : "");
}

}  // namespace

std::string_view PrefixOf(const SafetensorsFile& file) {
  const bool is_prefixed = std::ranges::all_of(file.tensors, [](const TensorView& tensor) { return tensor.name.starts_with(kPeftPrefix); });
  return is_prefixed ? kPeftPrefix : std::string_view();
}

std::string PlainName(std::string_view name, std::string_view prefix) {
  constexpr std::string_view kAdapter = ".default";
  std::string plain(name.substr(prefix.size()));
  const auto last = plain.rfind('.');
  if (last == std::string::npos) return plain;
  if (plain.ends_with(kAdapter)) return plain.substr(0, last);
  if (last >= kAdapter.size() && std::string_view(plain).substr(0, last).ends_with(kAdapter))
    plain.erase(last - kAdapter.size(), kAdapter.size());
  return plain;
}

Status Unplaced::Check(std::string_view file, std::size_t total, std::string_view kind, const Base& base, std::string_view expected) const {
  const std::string place = fmt::format("{}, {} layers", base.config().arch, base.config().n_layers);
  if (total > 0 && strangers_.size() + homeless_.size() == total) {
    std::vector<std::string> all = strangers_;
    all.insert(all.end(), homeless_.begin(), homeless_.end());
    return Fail(Code::NOTHING_MATCHED, std::string(file),
                fmt::format("0 of {} tensors edit anything in this base ({}); a name must be {}. The file has: {}", total, place, expected,
                            FirstOf(all)));
  }
  if (!strangers_.empty())
    return Fail(Code::TENSOR_UNMATCHED, strangers_.front(),
                fmt::format("{} of {} tensors are nothing that kind {} knows: {}; ignoring them would change what the adapter does",
                            strangers_.size(), total, kind, FirstOf(strangers_)));
  if (!homeless_.empty())
    return Fail(Code::TARGET_UNKNOWN, homeless_.front(),
                fmt::format("{} of {} tensors belong to modules that the base ({}) does not have: {}; use the base that the adapter was "
                            "trained on",
                            homeless_.size(), total, place, FirstOf(homeless_)));
  return {};
}

}  // namespace veneer
