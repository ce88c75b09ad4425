// A base by its path: a GGUF, or a Hugging Face directory.
#ifndef VENEER_CORE_COMPOSE_BASE_DIRECTORY_H_
#define VENEER_CORE_COMPOSE_BASE_DIRECTORY_H_

#include <filesystem>

#include "core/base/error.h"
#include "core/compose/artifact_source.h"
#include "core/model/base.h"

namespace veneer {

// Whether a directory is a Hugging Face model: it holds config.json and no adapter_config.json.
bool IsBaseDirectory(const std::filesystem::path& path);

// The files of a directory, neither hashed nor listed yet: config.json, then model.safetensors, or model.safetensors.index.json and the
// shards it names. config.json and the index are copied, the weights mapped.
// E301 a file is missing, by name; E401 weights in another format, or two answers to what the weights are; else as FileBytes.
Result<BaseFiles> OpenBaseDirectory(const std::filesystem::path& path);
// Makes the list, once every file has its digest.
void ListFiles(BaseFiles& base);

// Either kind: a GGUF is mapped and not hashed, a directory opened, hashed and listed.
Result<BaseFiles> OpenBaseFiles(const std::filesystem::path& path, const Progress& progress);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_BASE_DIRECTORY_H_
