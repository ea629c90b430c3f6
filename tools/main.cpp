// telamon: runs, shows, times and checks programs on file.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "interop/json_fields.hpp"
#include "telamon/config.hpp"
#include "telamon/error.hpp"

namespace {

using telamon_tool::kWrongUse;

// The number of letters to change, add or drop (Wagner and Fischer 1974).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

bool is_command(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands({});
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* c) { return c->get_name() == word; });
}

// "unknown command 'shwo'; did you mean 'show'?", with all commands of `app`: of telamon, or of one of its
// commands that has some itself.
int refuse_command(const CLI::App& app, const std::string& word) {
  std::string names, nearest;
  std::size_t least = 3;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    names += (names.empty() ? "" : ", ") + name;
    if (const std::size_t d = distance(word, name); d < least) {
      least = d;
      nearest = name;
    }
  }
  const std::string of = app.get_parent() == nullptr ? "" : app.get_name() + " ";
  std::cerr << "telamon: "
            << (word.empty() ? app.get_name() + " needs one of its commands"
                             : "unknown command '" + of + word + "'")
            << (nearest.empty() ? "" : "; did you mean '" + nearest + "'?")
            << "\ncommands: " << names << "; telamon help " << of
            << "COMMAND says what one takes\n";
  return kWrongUse;
}

// Refuses the first word that is no command where one belongs.
int refuse_commands(const CLI::App& app, std::span<const char* const> words) {
  const std::string word = words.empty() ? "" : words[0];
  if (app.get_subcommands({}).empty() || word.starts_with('-')) return 0;
  if (!is_command(app, word)) return refuse_command(app, word);
  return refuse_commands(*app.get_subcommand(word), words.subspan(1));
}

std::string version() {
  return "telamon " + std::to_string(TELAMON_VERSION_MAJOR) + "." +
         std::to_string(TELAMON_VERSION_MINOR) + "." + std::to_string(TELAMON_VERSION_PATCH);
}

// "--limit: 1 required INT:COUNT missing" in words: "--limit needs a value". What follows the line stays.
std::string without_value(std::string text) {
  const std::size_t colon = text.find(':'), end = text.find('\n');
  return text.replace(colon, end == text.npos ? end : end - colon, " needs a value");
}

// CLI11 names the arguments that nothing expects from the last to the first. What follows the line stays.
std::string in_order(std::string text, const std::vector<std::string>& arguments) {
  const std::size_t colon = text.find(':'), end = text.find('\n');
  return text.replace(colon, end == text.npos ? end : end - colon,
                      fmt::format(": {}", fmt::join(arguments, " ")));
}

// A word that begins as an option does is the next one, not what an option before it is to have for a value.
void refuse_options_as_values(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) refuse_options_as_values(*command);
  for (CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->get_items_expected_max() > 0; })) {
    if (option->get_positional()) continue;
    const std::string name = option->get_name();
    option->check([name](const std::string& value) {
      return value.starts_with("--") ? "needs a value, and not '" + value + "', which is an option"
                                     : "";
    });
  }
}

// The text of an error. A line of this command's own source tells users nothing.
std::string text_of(const telamon::Error& e) {
  std::string text = e.what();
  if (!e.where() || std::string_view(e.where().file).find("tools/") == std::string_view::npos)
    return text;
  const std::string line = "\n  at " + e.where().to_string();
  if (const auto at = text.find(line); at != std::string::npos) text.erase(at, line.size());
  return text;
}

// "help show" is another way to say "show --help".
std::vector<const char*> words_of(int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(words[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  return words;
}

int run(int argc, char** argv) {
  CLI::App app{"telamon: differentiate, batch, compile and check programs on file", "telamon"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  app.failure_message([](const CLI::App* command, const CLI::Error& e) {
    const std::string text = CLI::FailureMessage::simple(command, e);
    if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr)
      return "telamon: " + in_order(text, command->remaining(true));
    const bool without = e.get_name() == "ArgumentMismatch" && text.find(" missing") != text.npos;
    return "telamon: " + (without ? without_value(text) : text);
  });
  int code = 0;
  telamon_tool::add_check(app, code);
  telamon_tool::add_run(app, code);
  telamon_tool::add_show(app, code);
  telamon_tool::add_bench(app, code);
  telamon_tool::add_bisect(app, code);
  telamon_tool::add_info(app, code);
  telamon_tool::add_cache(app, code);
  refuse_options_as_values(app);
  app.footer("telamon help COMMAND: what a command takes");  // last: not of the commands too
  if (argc < 2) {
    std::cerr << app.help();
    return kWrongUse;
  }
  const std::vector<const char*> words = words_of(argc, argv);
  if (const int refused = refuse_commands(app, std::span(words).subspan(1))) return refused;
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : kWrongUse; }
  return code;
}

// What a command has printed is its answer: where it is lost, as on a full disk, the command fails.
void flush_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout)
    throw std::runtime_error("cannot write to standard output");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    flush_output();
    return code;
  } catch (const nlohmann::json::exception& e) {
    std::cerr << "telamon: damaged file: " << telamon::interop::plain_message(e) << '\n';
  } catch (const std::bad_alloc&) {
    std::cerr << "telamon: there is not enough memory for the arrays of this program\n";
  } catch (const telamon::Error& e) {
    std::cerr << "telamon: " << text_of(e) << '\n';
  } catch (const std::exception& e) { std::cerr << "telamon: " << e.what() << '\n'; }
  return kWrongUse;
}
