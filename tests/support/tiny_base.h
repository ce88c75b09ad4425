// A small model, or one in a file, opened: for tests that need a Base and not its file.
#ifndef VENEER_TESTS_SUPPORT_TINY_BASE_H_
#define VENEER_TESTS_SUPPORT_TINY_BASE_H_

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "core/model/base.h"
#include "tests/support/tiny_gguf.h"

inline std::shared_ptr<const veneer::Base> OpenTiny(const GgufWriter& file) {
  auto base = veneer::Base::OpenGguf(InMemory(file.Bytes()));
  if (!base) throw std::runtime_error(base.error().Text());
  return *std::move(base);
}

inline std::shared_ptr<const veneer::Base> OpenTiny(const TinyModel& model = {}) { return OpenTiny(TinyLlama(model)); }

inline std::shared_ptr<const veneer::Base> OpenBase(const std::filesystem::path& path) {
  auto file = veneer::FileBytes::Map(path);
  if (!file) throw std::runtime_error(file.error().Text());
  auto base = veneer::Base::OpenGguf(*std::move(file));
  if (!base) throw std::runtime_error(base.error().Text());
  return *std::move(base);
}

#endif  // VENEER_TESTS_SUPPORT_TINY_BASE_H_
