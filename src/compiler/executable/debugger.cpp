// What is listed is an object file without code: where that lies, the names of its functions, their frames.
#include "compiler/executable/debugger.hpp"

#include <elf.h>
#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

// The interface, by the names that debuggers look for. They are weak for programs that are linked with an
// LLVM which has them too, and protected so that a shared library uses its own, as debuggers do.
extern "C" {
struct jit_code_entry {
  jit_code_entry *next_entry, *prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};
struct jit_descriptor {
  std::uint32_t version;
  std::uint32_t action_flag;  // of the relevant entry: 1, it is new; 2, it is gone
  jit_code_entry *relevant_entry, *first_entry;
};
[[gnu::weak, gnu::used, gnu::visibility("protected")]] jit_descriptor __jit_debug_descriptor = {
    1, 0, nullptr, nullptr};
[[gnu::weak, gnu::used, gnu::visibility("protected"), gnu::noinline]] void
__jit_debug_register_code() {
  asm volatile("" ::: "memory");  // a place for a breakpoint, at which the list is in memory
}
}

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

#if defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
constexpr Elf64_Half kMachine = EM_X86_64;
#endif
enum Section : Elf64_Half { kNone, kText, kFrames, kSymbols, kStrings, kNumSections };

class ObjectFile {
 public:
  ObjectFile(std::string_view program, const NativeImage& image, const char* begin)
      : bytes_(sizeof(Elf64_Ehdr), '\0') {
    const Elf64_Addr address = reinterpret_cast<std::uintptr_t>(begin);
    sections_[kText] = {.sh_name = string(".text"),
                        .sh_type = SHT_NOBITS,
                        .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                        .sh_addr = address,
                        .sh_size = image.code.size(),
                        .sh_addralign = 1};
    fill(kFrames,
         {.sh_name = string(".eh_frame"),
          .sh_type = SHT_PROGBITS,
          .sh_addr = address + kFramesAt,
          .sh_addralign = 1},
         image.frames);
    fill(kSymbols,
         {.sh_name = string(".symtab"),
          .sh_type = SHT_SYMTAB,
          .sh_link = kStrings,
          .sh_info = 1,  // the first that is not local
          .sh_addralign = alignof(Elf64_Sym),
          .sh_entsize = sizeof(Elf64_Sym)},
         symbols(program, image, address));
    const Elf64_Word name = string(".strtab");
    fill(kStrings, {.sh_name = name, .sh_type = SHT_STRTAB, .sh_addralign = 1}, strings_);
    finish();
  }
  std::string take() { return std::move(bytes_); }

 private:
  Elf64_Word string(std::string_view text) {
    const auto at = static_cast<Elf64_Word>(strings_.size());
    strings_.append(text).push_back('\0');
    return at;
  }
  template <class T>
  static std::string_view bytes_of(const T& values) {
    return {reinterpret_cast<const char*>(std::data(values)),
            std::size(values) * sizeof *std::data(values)};
  }
  std::string symbols(std::string_view program, const NativeImage& image, Elf64_Addr begin) {
    const std::vector<std::string> names = names_of_functions(image, program);
    std::vector<Elf64_Sym> symbols(1);
    for (std::size_t i = 0; i < names.size(); ++i) {
      symbols.push_back({.st_name = string(names[i]),
                         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                         .st_other = STV_DEFAULT,
                         .st_shndx = kText,
                         .st_value = begin + static_cast<Elf64_Addr>(image.functions[i].at),
                         .st_size = static_cast<Elf64_Xword>(image.functions[i].bytes)});
    }
    return std::string(bytes_of(symbols));
  }
  void align() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }
  void fill(Section number, Elf64_Shdr section, std::string_view contents) {
    align();
    section.sh_offset = bytes_.size();
    section.sh_size = contents.size();
    sections_[number] = section;
    bytes_ += contents;
  }
  void finish() {
    align();
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,  // addresses are where things lie
        .e_machine = kMachine,
        .e_version = EV_CURRENT,
        .e_shoff = bytes_.size(),
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = kNumSections,
        .e_shstrndx = kStrings};
    bytes_.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
    bytes_ += bytes_of(sections_);
  }

  std::string bytes_, strings_ = std::string(1, '\0');
  Elf64_Shdr sections_[kNumSections] = {};
};

constinit std::mutex mutex;  // of the list

// A child after fork() has the list as it is while no thread changes it. When the library is loaded: a
// thread that did it later could wait for a fork() under way, and the child for that thread.
[[maybe_unused]] const int registered =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

void tell(jit_code_entry& entry, std::uint32_t action) {
  __jit_debug_descriptor.relevant_entry = &entry;
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_register_code();
  __jit_debug_descriptor.relevant_entry = nullptr;
  __jit_debug_descriptor.action_flag = 0;
}

}  // namespace

struct KnownCode::Entry {
  std::string file;
  jit_code_entry listed;
};

KnownCode::KnownCode(std::string_view program, const NativeImage& image, const char* begin)
    : entry_(new Entry{ObjectFile(program, image, begin).take(), {}}) {
  jit_code_entry& entry = entry_->listed;
  entry = {nullptr, nullptr, entry_->file.data(), entry_->file.size()};
  const std::lock_guard lock(mutex);
  entry.next_entry = __jit_debug_descriptor.first_entry;
  if (entry.next_entry != nullptr) entry.next_entry->prev_entry = &entry;
  __jit_debug_descriptor.first_entry = &entry;
  tell(entry, 1);
}

KnownCode::~KnownCode() {
  jit_code_entry& entry = entry_->listed;
  const std::lock_guard lock(mutex);
  (entry.prev_entry != nullptr ? entry.prev_entry->next_entry
                               : __jit_debug_descriptor.first_entry) = entry.next_entry;
  if (entry.next_entry != nullptr) entry.next_entry->prev_entry = entry.prev_entry;
  tell(entry, 2);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
