// Opening an adapter's files.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/adapter/gguf_lora.h"
#include "tests/support/catch.h"
#include "tests/support/peft_adapter.h"
#include "tests/support/temp_dir.h"

using veneer::Code;

namespace {

void Write(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
int CodeOf(const std::filesystem::path& path) {
  const auto files = veneer::OpenAdapterFiles(path);
  return files ? 0 : static_cast<int>(files.error().code);
}

}  // namespace

TEST_CASE("adapter: a directory and its single file open the same adapter") {
  const TempDir dir;
  Write(dir.path() / "adapter_model.safetensors", LowRank().file.Bytes());
  Write(dir.path() / "adapter_config.json", LowRank().ConfigText());
  for (const auto& path : {dir.path(), dir.path() / "adapter_model.safetensors"}) {
    auto files = veneer::OpenAdapterFiles(path);
    if (!files) FAIL(files.error().Text());
    CHECK(veneer::FormatOf(*files) == "safetensors");
    CHECK(veneer::IdentifyAdapter(*files, TestCatalog()) == std::string("lora"));
    const auto adapter = veneer::ReadAdapter(*std::move(files), *TinyBase(), TestCatalog());
    REQUIRE(adapter);
    CHECK(adapter->sites.size() == 4);
  }
}

TEST_CASE("adapter: what was read stays when its files are overwritten or removed") {
  const TempDir dir;
  Write(dir.path() / "adapter_model.safetensors", LowRank().file.Bytes());
  Write(dir.path() / "adapter_config.json", LowRank().ConfigText());
  const auto adapter = veneer::ReadAdapter(*veneer::OpenAdapterFiles(dir.path()), *TinyBase(), TestCatalog());
  REQUIRE(adapter);
  Write(dir.path() / "adapter_model.safetensors", "");  // truncated: a mapping would now fault
  std::filesystem::remove(dir.path() / "adapter_config.json");
  float first = 0;
  std::memcpy(&first, adapter->sites[0].source.tensors[0].tensor.bytes.data(), sizeof first);
  CHECK((first == 0.5F || first == 0.25F));
}

TEST_CASE("adapter: a header whose length has the bytes of a pickle's protocol is a header") {
  const TempDir dir;
  Write(dir.path() / "adapter_config.json", LowRank().ConfigText());
  for (const std::size_t length : {0x280, 0x380, 0x480, 0x580}) {
    PeftAdapter adapter = LowRank();
    std::string bytes;
    for (std::string padding; bytes.size() < 8 || bytes[0] != '\x80' || static_cast<std::size_t>(bytes[1]) << 8 != length - 0x80;
         padding += "        ") {
      REQUIRE(padding.size() < 0x600);
      adapter = length < 0x400 ? PeftAdapter{LowRank().config, {}, LowRank().prefix} : LowRank();
      if (length < 0x400) adapter.AddLowRank(Layer(0, "self_attn.q_proj"), 64, 64, 4);
      adapter.file.SetMetadata("padding", padding);
      bytes = adapter.file.Bytes();
    }
    Write(dir.path() / "adapter_model.safetensors", bytes);
    CHECK(CodeOf(dir.path()) == 0);
  }
}

TEST_CASE("adapter: pickles are refused by name and by content, and are not parsed") {
  const TempDir dir;
  Write(dir.path() / "adapter_config.json", LowRank().ConfigText());
  Write(dir.path() / "adapter_model.bin", "anything");
  const auto only_bin = veneer::OpenAdapterFiles(dir.path());
  REQUIRE_FALSE(only_bin);
  CHECK(only_bin.error().code == Code::FORMAT_UNSUPPORTED);
  CHECK(only_bin.error().at.find("adapter_model.bin") != std::string::npos);
  CHECK(only_bin.error().detail.find("safe_serialization") != std::string::npos);
  CHECK(CodeOf(dir.path() / "adapter_model.bin") == 401);
  Write(dir.path() / "adapter_model.safetensors", std::string("PK\x03\x04", 4) + std::string(100, 'x'));
  CHECK(CodeOf(dir.path()) == 401);
  Write(dir.path() / "adapter_model.safetensors", "\x80\x02}q\x01.");
  CHECK(CodeOf(dir.path()) == 401);
}

TEST_CASE("adapter: a GGUF opens alone, without a configuration that lies beside it") {
  const TempDir dir;
  Write(dir.path() / "adapter_config.json", LowRank().ConfigText());
  Write(dir.path() / "adapter.bytes", QueryValue().file.Bytes());  // told by its first bytes, not by its name
  auto files = veneer::OpenAdapterFiles(dir.path() / "adapter.bytes");
  if (!files) FAIL(files.error().Text());
  CHECK_FALSE(files->config);
  CHECK(veneer::FormatOf(*files) == "gguf");
  CHECK(veneer::IdentifyAdapter(*files, TestCatalog()) == std::string("lora"));
  const auto adapter = veneer::ReadAdapter(*std::move(files), *TinyBase(), TestCatalog());
  if (!adapter) FAIL(adapter.error().Text());
  CHECK(adapter->sites.size() == 4);
}

TEST_CASE("adapter: a missing file, a missing configuration and a huge configuration are refused") {
  const TempDir dir;
  CHECK(CodeOf(dir.path()) == 301);
  CHECK(CodeOf(dir.path() / "nothing.safetensors") == 301);
  Write(dir.path() / "adapter_model.safetensors", LowRank().file.Bytes());
  CHECK(CodeOf(dir.path()) == 301);
  Write(dir.path() / "adapter_config.json", std::string((1 << 20) + 1, ' '));
  CHECK(CodeOf(dir.path()) == 101);
}

TEST_CASE("adapter: a file cut at any place is an error, never a smaller adapter") {
  const std::string whole = LowRank(1).file.Bytes(), config = LowRank(1).ConfigText();
  for (std::size_t size = 1; size < whole.size(); size += 61) {
    veneer::AdapterFiles files{InMemory(whole.substr(0, size)), InMemory(config)};
    CHECK_FALSE(veneer::ReadAdapter(std::move(files), *TinyBase(), TestCatalog()));
  }
}

TEST_CASE("adapter: two reads of one file give the same bytes") {
  const auto a = LowRank().Read(), b = LowRank().Read();
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(a->sites.size() == b->sites.size());
  for (std::size_t i = 0; i < a->sites.size(); ++i)
    for (std::size_t t = 0; t < a->sites[i].source.tensors.size(); ++t) {
      const auto &x = a->sites[i].source.tensors[t], &y = b->sites[i].source.tensors[t];
      CHECK(x.role == y.role);
      CHECK(std::ranges::equal(x.tensor.bytes, y.tensor.bytes));
    }
}
