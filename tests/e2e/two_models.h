// A store of the program with two compositions to switch between, each a little model alone.
#ifndef VENEER_TESTS_E2E_TWO_MODELS_H_
#define VENEER_TESTS_E2E_TWO_MODELS_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/e2e/program_store.h"
#include "tests/support/tiny_gguf.h"

class TwoModels : public ProgramStore {
 public:
  TwoModels() {
    a = Seal("a", 1);
    b = Seal("b", 2);
    std::ofstream(Path("c.gguf"), std::ios::binary) << TinyLlama({.n_layers = 1, .seed = 3}).Bytes();
    Must({"activate", "a"});
  }

  std::string a, b;  // ids; sealed under these names. a is active. c.gguf is not imported

 private:
  std::string Seal(const std::string& name, std::uint64_t seed) const {
    const std::string file = Path(name + ".gguf");
    std::ofstream(file, std::ios::binary) << TinyLlama({.n_layers = 1, .seed = seed}).Bytes();
    Must({"import", "base", file, "--name", name});
    return MustJson({"seal", Compose(name, name, {}), "--name", name})["composition"];
  }
};

#endif  // VENEER_TESTS_E2E_TWO_MODELS_H_
