// Small safetensors files for tests, valid by construction. Shares no code with the reader in core/format.
#ifndef VENEER_TESTS_SUPPORT_SAFETENSORS_WRITER_H_
#define VENEER_TESTS_SUPPORT_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

class SafetensorsWriter {
 public:
  // dtype as the format spells it: "F32", "F16", "BF16", "I32". Replaces a tensor of that name.
  void Set(const std::string& name, const std::string& dtype, const std::vector<std::uint64_t>& shape, std::string bytes);
  void SetF32(const std::string& name, const std::vector<std::uint64_t>& shape, std::span<const float> values);
  // n elements of `value`.
  void Fill(const std::string& name, const std::vector<std::uint64_t>& shape, float value);
  void Remove(const std::string& name);
  void Rename(const std::string& from, const std::string& to);
  [[nodiscard]] std::vector<std::string> Names() const;

  // A member of __metadata__; {"format": "pt"} as long as none is set.
  void SetMetadata(const std::string& key, const std::string& value) { metadata_[key] = value; }

  // Header padded to 8 bytes with blanks, tensors in the order of Set, no holes.
  [[nodiscard]] std::string Bytes() const;

 private:
  struct Tensor {
    std::string name, dtype;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

#endif  // VENEER_TESTS_SUPPORT_SAFETENSORS_WRITER_H_
