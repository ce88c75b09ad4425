#include "core/plugin/module.h"

#include <algorithm>
#include <cfenv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/core/plugin/test_plugins.h"
#include "tests/support/catch.h"

using veneer::Code;
using veneer::Error;

namespace {

Error RefusalOf(const std::string& module) {
  auto loaded = LoadFile(ModulePath(module));
  REQUIRE_FALSE(loaded);
  return loaded.error();
}

bool Says(const Error& error, const std::string& words) { return error.Text().find(words) != std::string::npos; }

std::size_t LinesOf(const std::string& path) {
  std::ifstream file(path);
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}
std::ptrdiff_t OpenFiles() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("module: a library loads once, and the same bytes under another name are the same module") {
  const auto first = LoadFile(ModulePath("offset"));
  REQUIRE(first);
  CHECK(std::string(first->entry->name) == "example-offset");
  const TempDir dir;
  std::filesystem::copy_file(ModulePath("offset"), dir.path() / "copy.so");
  const auto second = LoadFile(dir.path() / "copy.so");
  REQUIRE(second);
  CHECK(second->entry == first->entry);
  const auto other = LoadFile(ModulePath("offset2"));
  REQUIRE(other);
  CHECK(other->entry != first->entry);
  CHECK(std::string(other->entry->version) == "2.0.0");
}

TEST_CASE("module: a plugin of the next ABI major is refused by its data, and the range is named") {
  const Error error = RefusalOf("major");
  CHECK(error.code == Code::PLUGIN_REFUSED);
  CHECK(Says(error, "needs ABI 2.0, this program has 1.0"));
}

TEST_CASE("module: a plugin that needs a newer minor is refused") {
  const Error error = RefusalOf("minor");
  CHECK(error.code == Code::PLUGIN_REFUSED);
  CHECK(Says(error, "needs ABI 1.1"));
}

TEST_CASE("module: an entry that is smaller than ABI 1.0 is a fault") { CHECK(RefusalOf("size").code == Code::PLUGIN_FAULT); }

TEST_CASE("module: a NULL kind is a fault") { CHECK(RefusalOf("null_kind").code == Code::PLUGIN_FAULT); }

TEST_CASE("module: a library without the entry symbol is refused, and file and symbol are named") {
  const Error error = RefusalOf("no_entry");
  CHECK(error.code == Code::PLUGIN_REFUSED);
  CHECK(Says(error, "no_entry.so"));
  CHECK(Says(error, "veneer_overlay_entry_v1"));
}

TEST_CASE("module: the entry symbol on a function is a fault and is not read as data") {
  CHECK(RefusalOf("function").code == Code::PLUGIN_FAULT);
}

TEST_CASE("module: an undefined symbol is found while loading, and the loader's own words are passed on") {
  const Error error = RefusalOf("undefined");
  CHECK(error.code == Code::PLUGIN_REFUSED);
  CHECK(Says(error, "veneer_test_symbol_that_nobody_defines"));
}

TEST_CASE("module: a file that is no library is refused with the loader's words") {
  const TempDir dir;
  WriteFile(dir.path() / "text.so", "this is no library, only text that is long enough to hold a header of sixty-four bytes\n");
  const auto loaded = LoadFile(dir.path() / "text.so");
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == Code::PLUGIN_REFUSED);
  CHECK(Says(loaded.error(), "invalid ELF header"));
}

#if defined(__x86_64__)
TEST_CASE("module: a constructor that changes the floating-point environment is refused, and the environment is put back") {
  volatile float tiny = 1e-39F;
  REQUIRE(tiny * 0.5F > 0.0F);
  const Error error = RefusalOf("float_environment");
  CHECK(error.code == Code::PLUGIN_REFUSED);
  CHECK(Says(error, "floating-point"));
  CHECK(tiny * 0.5F > 0.0F);  // flush to zero would make it 0
  CHECK(std::fegetround() == FE_TONEAREST);
}
#endif

TEST_CASE("module: a library that was refused after it was mapped does not answer for the next one") {
  // The loader knows a library by its path, /proc/self/fd/N: were N closed and reused, it would hand out the refused library again.
  const TempDir dir;
  std::filesystem::copy_file(ModulePath("null_kind"), dir.path() / "bad.so");
  std::ofstream(dir.path() / "bad.so", std::ios::app) << "other bytes";
  REQUIRE_FALSE(LoadFile(dir.path() / "bad.so"));
  std::filesystem::copy_file(ModulePath("offset"), dir.path() / "good.so");
  std::ofstream(dir.path() / "good.so", std::ios::app) << "other bytes";
  const auto good = LoadFile(dir.path() / "good.so");
  REQUIRE(good);
  CHECK(std::string(good->entry->name) == "example-offset");
}

TEST_CASE("module: probing bad libraries a hundred times maps and opens nothing more") {
  for (const char* name : {"no_entry", "major", "undefined"}) RefusalOf(name);
  const auto maps = LinesOf("/proc/self/maps");
  const auto files = OpenFiles();
  for (int i = 0; i < 100; ++i)
    for (const char* name : {"no_entry", "major", "undefined"}) RefusalOf(name);
  CHECK(LinesOf("/proc/self/maps") <= maps + 4);  // the heap may grow
  CHECK(OpenFiles() == files);
}

TEST_CASE("module: a digest that is not the expected one is refused before any code of the library runs") {
  const auto path = ModulePath("constructor");  // its constructor ends the process
  const auto fd = veneer::OpenRegular(path);
  REQUIRE(fd);
  const auto loaded = veneer::LoadModule(*fd, path.string(), veneer::Sha256::Of("something else"));
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == Code::PLUGIN_REFUSED);
  CHECK(Says(loaded.error(), "its card says sha256:"));
}

TEST_CASE("module: what was loaded stays what it was when its file is overwritten") {
  const TempDir dir;
  const auto path = dir.path() / "plugin.so";
  std::filesystem::copy_file(ModulePath("offset"), path);
  std::ofstream(path, std::ios::app) << "once more";
  const auto before = LoadFile(path);
  REQUIRE(before);
  std::filesystem::copy_file(ModulePath("offset2"), path, std::filesystem::copy_options::overwrite_existing);
  CHECK(std::string(before->entry->version) == "1.0.0");
  const auto after = LoadFile(path);
  REQUIRE(after);
  CHECK(std::string(after->entry->version) == "2.0.0");
}
