#include "core/bench/read_control.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

using namespace veneer;

TEST_CASE("read control: a base's linear weights are counted once each, the embedding table is not among them") {
  const auto base = OpenTiny();
  std::uint64_t bytes = 0;
  for (const Site& site : base->sites().sites())
    if (site.id.ends_with("_proj") || site.id == "lm_head") bytes += site.weight.bytes.size();
  CHECK(ReadControl(*base, 1).bytes() == bytes);
}

TEST_CASE("read control: all pages are read, by one thread or several, whatever the size") {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t size : {std::size_t{0}, std::size_t{64}, page, 37 * page, 256 * page + 192, 257 * page - 64}) {
    for (const std::uint32_t threads : {1U, 3U}) {
      CAPTURE(size, threads);
      const std::size_t mapped = (size / page + 1) * page;
      void* memory = mmap(nullptr, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      REQUIRE(memory != MAP_FAILED);
      madvise(memory, mapped, MADV_NOHUGEPAGE);
      ReadControl control({{static_cast<const std::byte*>(memory), size}}, threads);
      CHECK(control.bytes() == size);
      CHECK(control.Pass() >= 0);
      std::vector<unsigned char> resident(mapped / page);
      REQUIRE(mincore(memory, mapped, resident.data()) == 0);
      std::size_t touched = 0;
      for (const unsigned char one : resident) touched += one & 1;
      CHECK(touched + 1 >= (size + page - 1) / page);  // the last bytes of a thread's part may stay unread
      munmap(memory, mapped);
    }
  }
}
