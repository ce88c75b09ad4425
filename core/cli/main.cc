// The only main: hands the arguments on and turns what foreign code may throw into our own error line.
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "core/base/mapping_guard.h"
#include "core/cli/command.h"
#include "core/cli/output.h"

int main(int argc, char** argv) {
  using namespace veneer;
  try {
    if (const Status guarded = InstallMappingGuard(); !guarded) cli::Note("warning: " + guarded.error().Text());
    return cli::RunCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::bad_alloc&) {
    const Error error{Code::OUT_OF_MEMORY, "", "the system refused memory; nothing was changed"};
    cli::PrintError("PROGRAM", error, false);
    return cli::ExitStatus(error);
  } catch (const std::exception& unexpected) {
    const Error error{Code::INTERNAL, "", unexpected.what()};
    cli::PrintError("PROGRAM", error, false);
    return cli::ExitStatus(error);
  }
}
