// What debuggers know of generated code: GDB itself, in a process of its own, and the list that it reads.
#include "compiler/executable/debugger.hpp"

#include <elf.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "compiler/support.hpp"
#include "core/sanitizers.hpp"
#include "support/disk_cache.hpp"
#include "support/processes.hpp"
#include "telamon/primitive.hpp"

extern "C" {
struct jit_code_entry {
  jit_code_entry *next_entry, *prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};
struct jit_descriptor {
  std::uint32_t version, action_flag;
  jit_code_entry *relevant_entry, *first_entry;
};
[[gnu::weak]] extern jit_descriptor __jit_debug_descriptor;  // weak: found by the dynamic linker
[[gnu::noinline]] void telamon_test_stop_here() { asm volatile(""); }
}

namespace telamon::testing {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;

// ---- the list ------------------------------------------------------------------------------------

/// An object file as the list has it.
class Listed {
 public:
  explicit Listed(const jit_code_entry& entry)
      : file_(entry.symfile_addr, entry.symfile_size), header_(at<Elf64_Ehdr>(0)) {}
  /// Where each function begins, and how many bytes it has.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> functions() const {
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> found;
    const Elf64_Shdr table = section(".symtab"), names = section(".strtab");
    for (std::uint64_t i = sizeof(Elf64_Sym); i < table.sh_size; i += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(table.sh_offset + i);
      found[text(names.sh_offset + symbol.st_name)] = {symbol.st_value, symbol.st_size};
    }
    return found;
  }
  /// The same of what frames are known of.
  std::map<std::uint64_t, std::uint64_t> frames() const {
    std::map<std::uint64_t, std::uint64_t> found;
    const Elf64_Shdr frames = section(".eh_frame");
    for (std::uint64_t i = 0; i < frames.sh_size;) {
      const std::uint64_t record = frames.sh_offset + i;
      const auto bytes = at<std::uint32_t>(record), kind = at<std::uint32_t>(record + 4);
      if (kind != 0) {  // of a function
        const std::uint64_t here = frames.sh_addr + i + 8;
        found[here + static_cast<std::uint64_t>(std::int64_t{at<std::int32_t>(record + 8)})] =
            at<std::uint32_t>(record + 12);
      }
      i += 4 + bytes;
    }
    return found;
  }

 private:
  template <class T>
  T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof value);
    return value;
  }
  std::string text(std::uint64_t offset) const { return file_.data() + offset; }
  Elf64_Shdr section(const std::string& name) const {
    const auto header = [&](std::uint64_t i) {
      return at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr));
    };
    for (std::uint64_t i = 1; i < header_.e_shnum; ++i) {
      if (text(header(header_.e_shstrndx).sh_offset + header(i).sh_name) == name) return header(i);
    }
    ADD_FAILURE() << "there is no section " << name;
    return {};
  }
  std::string file_;
  Elf64_Ehdr header_;
};

/// How many are listed; none where the list is not sound.
std::size_t length_of_list() {
  std::size_t length = 0;
  const jit_code_entry* before = nullptr;
  for (const auto* e = __jit_debug_descriptor.first_entry; e != nullptr; e = e->next_entry) {
    if (e->prev_entry != before) return 0;
    before = e;
    ++length;
  }
  return length;
}
/// The object files that hold a function of this name.
std::vector<Listed> listed(const std::string& function) {
  std::vector<Listed> found;
  for (const auto* e = __jit_debug_descriptor.first_entry; e != nullptr; e = e->next_entry) {
    if (Listed file(*e); file.functions().contains(function)) found.push_back(std::move(file));
  }
  return found;
}

Compiled compiled(const std::string& name) {
  const Array x = uniform({64}, DType::f32);
  return compile(stage([](std::span<const Array> a) { return Arrays{lax::sin(a[0])}; }, {x}),
                 {.name = name, .disabled = {"inline_kernels"}});
}

TEST(Debugger, KnowsCodeAsLongAsItIsThere) {
  Compiled code = compiled("known");
  const std::vector<Listed> files = listed("telamon:known");
  ASSERT_EQ(files.size(), 1u);
  const auto functions = files[0].functions();
  EXPECT_TRUE(functions.contains("telamon:known:sin_0"));
  code.reset();
  EXPECT_TRUE(listed("telamon:known").empty());
}

TEST(Debugger, KnowsCodeThatComesFromTheDisk) {
  const CacheFolder folder;
  const CacheChanges changes;
  for (int i = 0; i < 2; ++i) {
    const Compiled code = compiled("stored");
    EXPECT_EQ(changes().hits, i);
    const std::vector<Listed> files = listed("telamon:stored");
    ASSERT_EQ(files.size(), 1u);
    EXPECT_EQ(files[0].functions().size(), 2u);
    EXPECT_EQ(files[0].frames().size(), 2u);
  }
}

// A long chain has functions in several object files, which are linked one after the other.
TEST(Debugger, KnowsTheFramesOfAllFunctions) {
  const Program f = [](std::span<const Array> a) {
    Arrays v = {a[0]};
    for (int i = 0; i < 2000; ++i) {
      const Array& last = v.back();
      const auto n = static_cast<std::size_t>(i);
      v.push_back(i % 3 == 0 ? lax::sin(last) : lax::add(last, lax::mul(v[n / 2], v[n / 3])));
    }
    return Arrays{v.back()};
  };
  const Compiled code = compile(stage(f, {uniform({64}, DType::f32)}), {.name = "long_chain"});
  const std::vector<Listed> files = listed("telamon:long_chain");
  ASSERT_EQ(files.size(), 1u);
  const auto functions = files[0].functions();
  const auto frames = files[0].frames();
  EXPECT_GT(functions.size(), 5u);
  for (const auto& [name, place] : functions) EXPECT_THAT(frames, Contains(place)) << name;
}

TEST(Debugger, LeavesFramesOutOfTheAssembly) {
  const std::string text = compiled("read")->text("asm");
  EXPECT_NE(text.find("sin_0:"), std::string::npos);
  EXPECT_EQ(text.find(".cfi"), std::string::npos);
}

// A child that is forked while another thread is at the list has it whole, and may go on with it.
TEST(Debugger, IsToldByManyThreadsAndByTheirChildren) {
  const compiler::NativeImage nothing;
  const compiler::KnownCode first("first", nothing, nullptr);
  const std::size_t before = length_of_list();
  EXPECT_GE(before, 1u);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!done) const compiler::KnownCode known("thread", nothing, nullptr);
    });
  }
#if !defined(TELAMON_TSAN)  // which lets no child of several threads go on
  for (int i = 0; i < 100; ++i) {
    expect_success_in_processes(1, [&](int) {
      alarm(20);
      const compiler::KnownCode known("child", nothing, nullptr);
      return length_of_list() > before ? 0 : 1;
    });
  }
#endif
  done = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(length_of_list(), before);
}

// ---- GDB -----------------------------------------------------------------------------------------

const Primitive<> stopping_p{
    "test_stopping", [] {
      return Rules<>{
          .abstract_eval = [](const NoParams&,
                              std::span<const Aval> x) { return AbstractResult(x[0]); },
          .lower = call<NoParams>([](const NoParams&, std::span<const BufferView> in,
                                     std::span<const MutableBufferView> out) {
            telamon_test_stop_here();
            out[0].as<float>()[0] = in[0].as<float>()[0];
          }),
      };
    }};

void run_what_is_looked_at() {
  const Arrays inputs = {uniform({1}, DType::f32)};
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::exp(stopping_p.bind1({}, {lax::sin(x[0])}))};
  };
  execute(compile(stage(f, inputs), {.name = "watched", .disabled = {"inline_kernels"}}), inputs);
}

constexpr const char *kTest = "Debugger.NamesKernelsAndSeesTheirCallers",
                     *kLookedAt = "TELAMON_TEST_IS_LOOKED_AT";

/// What GDB says to these commands about a process in which that runs.
std::string gdb(const std::vector<std::string>& commands) {
  std::string line = "TELAMON_NUM_THREADS=1 " + std::string(kLookedAt) +
                     "=1 gdb -q -nx -batch -ex 'set breakpoint pending on'";
  for (const std::string& c : commands) line += " -ex '" + c + "'";
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  line += " --args '" + program.string() + "' --gtest_filter=" + kTest + " 2>&1";
  FILE* pipe = popen(line.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; pipe != nullptr && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, n);
  if (pipe != nullptr) pclose(pipe);
  return text;
}

TEST(Debugger, NamesKernelsAndSeesTheirCallers) {
  if (std::getenv(kLookedAt) != nullptr) return run_what_is_looked_at();
  if (const std::string said = gdb({"break main", "run", "backtrace"});
      said.find("#0  main") == std::string::npos && said.find(" in main (") == std::string::npos)
    GTEST_SKIP() << "GDB cannot stop a program here, or is not installed: " << said;
  const std::string said = gdb({"break -function telamon:watched:sin_0", "run", "backtrace",
                                "break telamon_test_stop_here", "continue", "backtrace"});
  // In a kernel, then in a function that the entry point calls by way of the library.
  EXPECT_THAT(said, ContainsRegex("#0 .*telamon:watched:sin_0 \\(\\)\n#1 .*telamon:watched \\(\\)\n"
                                  "(#[^\n]*\n)+#[^\n]* main \\("));
  EXPECT_THAT(said, ContainsRegex("#0 .*telamon_test_stop_here(.|\n)*[^:]telamon:watched \\(\\)\n"
                                  "(#[^\n]*\n)+#[^\n]* main \\("));
}

}  // namespace
}  // namespace telamon::testing
