#include "core/model/sentence_piece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <utility>

namespace veneer {

struct SentencePiece::Processor {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePiece::SentencePiece() : processor_(std::make_unique<Processor>()) {}
SentencePiece::~SentencePiece() = default;

Result<std::shared_ptr<const SentencePiece>> SentencePiece::Load(std::string_view model) {
  std::shared_ptr<SentencePiece> loaded(new SentencePiece());
  const auto status = loaded->processor_->processor.LoadFromSerializedProto({model.data(), model.size()});
  if (!status.ok() || loaded->size() <= 0)
    return Fail(
        Code::HEADER_CORRUPT, "tokenizer.model",
        fmt::format("is no SentencePiece model ({}); download the model again", status.ok() ? "it has no tokens" : status.ToString()));
  return loaded;
}

void SentencePiece::Encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<int> encoded;
  // Encoding fails for a processor without a model alone, which Load has ruled out.
  (void)processor_->processor.Encode({text.data(), text.size()}, &encoded);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
}

std::int32_t SentencePiece::size() const { return processor_->processor.GetPieceSize(); }
const std::string& SentencePiece::Text(std::int32_t id) const { return processor_->processor.IdToPiece(id); }

SentencePiece::Kind SentencePiece::KindOf(std::int32_t id) const {
  const auto& processor = processor_->processor;
  if (processor.IsUnknown(id)) return Kind::kUnknown;
  if (processor.IsControl(id)) return Kind::kControl;
  if (processor.IsUnused(id)) return Kind::kUnused;
  return processor.IsByte(id) ? Kind::kByte : Kind::kNormal;
}

std::int32_t SentencePiece::bos() const { return processor_->processor.bos_id(); }
std::int32_t SentencePiece::eos() const { return processor_->processor.eos_id(); }
std::int32_t SentencePiece::unknown() const { return processor_->processor.unk_id(); }

}  // namespace veneer
