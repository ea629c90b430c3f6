// telamon: runs, shows, times and checks programs on file.
#include <iostream>

#include "commands.hpp"
#include "telamon/error.hpp"

int main(int argc, char** argv) {
  CLI::App app{"telamon: differentiate, batch, compile and check programs on file"};
  app.require_subcommand(1);
  int code = 0;
  telamon_tool::add_check(app, code);
  telamon_tool::add_run(app, code);
  telamon_tool::add_show(app, code);
  telamon_tool::add_bench(app, code);
  telamon_tool::add_info(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { return app.exit(e); } catch (const std::exception& e) {
    std::cerr << "telamon: " << e.what() << '\n';
    return 2;
  }
  return code;
}
