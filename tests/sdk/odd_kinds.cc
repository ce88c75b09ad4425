// One plugin with two kinds that use every default, and throw what must not cross the boundary.
#include <stdexcept>
#include <string>

#include "veneer/import.hpp"
#include "veneer/overlay.hpp"

namespace {

constexpr vnr_import_rule rules[] = {veneer::accept("adapter.x.name")};
constexpr auto rule_list = veneer::pointers(rules);
constexpr vnr_import_gguf_tensor tensors[] = {veneer::gguf_tensor(".x", "a", VNR_BIT(VNR_SITE_LINEAR))};
constexpr auto tensor_list = veneer::pointers(tensors);
constexpr vnr_import_gguf gguf = veneer::import_gguf_of("x", nullptr, nullptr, nullptr, rule_list, tensor_list);

struct nothing : veneer::overlay {
  static constexpr const char* id = "test.nothing";
  static constexpr const char* summary = "all defaults";
  static constexpr const char* schema = R"({"type":"object","additionalProperties":false,"properties":{}})";
  static constexpr vnr_role roles[] = {veneer::with(veneer::role("a", veneer::OUT), VNR_ROLE_OPTIONAL)};
  veneer::program stage(const veneer::stager&) { return {}; }
};

// Throws as "/what" says, where "/where" says: 0 bind, 1 stage, 2 weight_row, 3 apply.
struct thrower : veneer::overlay {
  static constexpr const char* id = "test.thrower";
  static constexpr const char* summary = "throws";
  static constexpr const char* schema = R"({"type":"object","additionalProperties":true,"properties":{}})";
  static constexpr vnr_role roles[] = {veneer::with(veneer::role("a", veneer::OUT), VNR_ROLE_OPTIONAL)};
  static constexpr const vnr_import_gguf* import_gguf = &gguf;
  int64_t what = 0, where = 0;

  void Throw(int64_t here) const {
    if (here != where) return;
    if (what == 0) throw veneer::error{VNR_E_NUMERIC, "a coded error"};
    if (what == 1) throw std::bad_alloc();
    if (what == 2) throw std::runtime_error("a standard exception");
    if (what == 3) throw 42;
    throw veneer::error{VNR_OK, "\xC3\xA4\xC3\xB6\xC3\xBC"};  // three characters of two bytes, and a code that is none
  }
  void bind(const vnr_site&, const veneer::source& from) {
    what = from.integer("/what", 0);
    where = from.integer("/where", 0);
    Throw(0);
  }
  veneer::program stage(const veneer::stager&) {
    Throw(1);
    return {};
  }
  void weight_row(const vnr_site&, uint64_t, float*) const { Throw(2); }
  void apply(const vnr_site&, const veneer::io&, uint64_t, uint64_t) const { Throw(3); }
};

}  // namespace

VENEER_OVERLAYS("test-odd", "2.5.1", nothing, thrower)
