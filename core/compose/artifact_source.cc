#include "core/compose/artifact_source.h"

#include <algorithm>

namespace veneer {

Digest HashBytes(std::span<const std::byte> bytes, const Progress& progress) {
  constexpr std::size_t kStep = std::size_t{8} << 20;
  Sha256 hasher;
  for (std::size_t done = 0; done < bytes.size(); done += kStep) {
    hasher.Update(bytes.subspan(done, std::min(kStep, bytes.size() - done)));
    if (progress) progress(std::min(done + kStep, bytes.size()), bytes.size());
  }
  return hasher.Finish();
}

}  // namespace veneer
