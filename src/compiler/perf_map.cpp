// The format is that of tools/perf/Documentation/jit-interface.txt in Linux: START SIZE symbolname, in
// hexadecimal, a line per function. The functions of an object are one section, so their distances are
// those of the file, whoever linked it.
#include "compiler/perf_map.hpp"

#include <fmt/core.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/ObjectFile.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "core/environment.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using llvm::object::ObjectFile;
using llvm::object::SymbolRef;

struct Function {
  std::string name;
  std::uint64_t offset, bytes;
};

std::vector<Function> functions_of(const ObjectFile& object) {
  std::vector<Function> functions;
  for (const SymbolRef& symbol : object.symbols()) {
    auto type = symbol.getType();
    auto name = symbol.getName();
    auto offset = symbol.getValue();
    if (type && name && offset && *type == SymbolRef::ST_Function) {
      functions.push_back({name->str(), *offset, llvm::object::ELFSymbolRef(symbol).getSize()});
    }
    if (!type) llvm::consumeError(type.takeError());
    if (!name) llvm::consumeError(name.takeError());
    if (!offset) llvm::consumeError(offset.takeError());
  }
  return functions;
}

}  // namespace

bool perf_map_wanted() { return detail::environment_word("TELAMON_PERF_MAP") == "1"; }

void name_code(std::string_view program, std::string_view object, std::string_view entry,
               const std::unordered_map<std::string, void*>& addresses) {
  auto parsed = ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "program"));
  if (!parsed || !(*parsed)->isELF()) {
    if (!parsed) llvm::consumeError(parsed.takeError());
    return;
  }
  const std::vector<Function> functions = functions_of(**parsed);
  std::uint64_t base = 0;
  for (const Function& f : functions) {
    if (const auto found = addresses.find(f.name); found != addresses.end())
      base = reinterpret_cast<std::uintptr_t>(found->second) - f.offset;
  }
  std::string lines;
  for (const Function& f : functions) {
    lines += fmt::format("{:x} {:x} telamon:{}{}\n", base + f.offset, f.bytes, program,
                         f.name == entry ? "" : ":" + f.name);
  }
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  const std::string path = fmt::format("/tmp/perf-{}.map", getpid());
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fwrite(lines.data(), 1, lines.size(), file);
    std::fclose(file);
  } else {
    detail::ignore_environment("TELAMON_PERF_MAP", path + " cannot be written");
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
