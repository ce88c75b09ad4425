// A tokenizer.model, read and applied by the SentencePiece library, so that ids are those of the model's authors whatever its algorithm
// and normalization are. The library is seen by sentence_piece.cc alone.
#ifndef VENEER_CORE_MODEL_SENTENCE_PIECE_H_
#define VENEER_CORE_MODEL_SENTENCE_PIECE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace veneer {

class SentencePiece {
 public:
  // E402 for what is no SentencePiece model.
  static Result<std::shared_ptr<const SentencePiece>> Load(std::string_view model);
  SentencePiece(const SentencePiece&) = delete;
  SentencePiece& operator=(const SentencePiece&) = delete;
  ~SentencePiece();

  // Appends the ids of plain text; control symbols in it are text.
  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const;

  enum class Kind { kNormal, kUnknown, kControl, kUnused, kByte };
  [[nodiscard]] std::int32_t size() const;
  [[nodiscard]] const std::string& Text(std::int32_t id) const;
  [[nodiscard]] Kind KindOf(std::int32_t id) const;
  [[nodiscard]] std::int32_t bos() const;  // -1 when there is none
  [[nodiscard]] std::int32_t eos() const;
  [[nodiscard]] std::int32_t unknown() const;

 private:
  SentencePiece();
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_SENTENCE_PIECE_H_
