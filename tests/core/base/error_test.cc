#include "core/base/error.h"

#include "core/base/checked.h"
#include "tests/support/catch.h"

using namespace veneer;

TEST_CASE("error: the text carries code, name, place and detail") {
  const Error error{Code::HASH_MISMATCH, "/adapters/1/file_hash", "found a, manifest says b"};
  CHECK(error.Text() == "E303 HASH_MISMATCH at=/adapters/1/file_hash found a, manifest says b");
}

TEST_CASE("error: an outer place goes in front, JSON pointers are joined") {
  CHECK((Error{Code::SYNTAX, "/name", ""}.Within("/adapters/0").at) == "/adapters/0/name");
  CHECK((Error{Code::SYNTAX, "lora_A", ""}.Within("model.layers.0").at) == "model.layers.0: lora_A");
  CHECK((Error{Code::SYNTAX, "", ""}.Within("a.gguf").at) == "a.gguf");
}

TEST_CASE("checked: a product that wraps is refused even when a dimension is zero") {
  const std::uint64_t wraps[] = {1ULL << 52, 4096, 0};
  CHECK_FALSE(CheckedProduct(wraps));
  const std::uint64_t zero[] = {7, 0, 3};
  CHECK(CheckedProduct(zero) == 0);
  CHECK_FALSE(CheckedAdd(UINT64_MAX, 1));
  CHECK(CheckedAlignUp(33, 32) == 64);
  CHECK_FALSE(CheckedAlignUp(UINT64_MAX - 3, 32));
}
