// A PEFT LoRA directory as llama.cpp's converter writes it (convert_lora_to_gguf.py, conversion/llama.py): an independent way from a
// PEFT adapter to a GGUF one. Names, permutation and orientation are written out here, not taken from core.
#ifndef VENEER_TESTS_SUPPORT_GGUF_ADAPTER_H_
#define VENEER_TESTS_SUPPORT_GGUF_ADAPTER_H_

#include <cstdint>
#include <filesystem>

#include "tests/support/tiny_gguf.h"
#include "veneer/abi.h"

// Architecture llama. `type`: F32, F16, BF16, or a block type that Quantize knows, for tensors whose rows are whole blocks (the others
// become F16, as there). Throws on a tensor that the converter refuses.
GgufWriter GgufFromPeft(const std::filesystem::path& directory, std::uint32_t head_dim, std::uint32_t type = VNR_F32);

#endif  // VENEER_TESTS_SUPPORT_GGUF_ADAPTER_H_
