// SPDX-License-Identifier: GPL-2.0-only
// cr_info IMAGE: what an image holds, and whether it is whole.
#include <chrono>
#include <clocale>
#include <cstdio>

#include "command.h"
#include "json.h"
#include "progress.h"
#include "text.h"

using namespace reprise;

namespace {

Verification verify(const Image& image, bool bar_wanted) {
  Verification out;
  const auto begin = std::chrono::steady_clock::now();
  try {
    ProgressBar bar("verifying", bar_wanted);
    image.verify_all(0, bar.callback());
  } catch (const Error& error) {
    out.error = error.what();
  }
  out.done = true;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  CLI::App app{
      "Show what the image of a process holds and check that it is whole.\n"
      "Without options that choose, everything is shown. SAVED is what the image holds of a\n"
      "mapping; the rest of it comes from its file, or was never touched.",
      "cr_info"};
  app.footer(
      "Exit status: 0 the image is whole, 2 wrong usage, 3 it may not be read, 5 it is damaged or not an image.\n"
      "An image is an ELF core file, too: gdb PROGRAM IMAGE shows the stacks.");
  tool::Common common("cr_info");
  std::string path;
  bool check = true;
  Sections sections;
  tool::set_up(app);
  app.add_option("IMAGE", path, "file written by cr_checkpoint")->required()->type_name("");
  app.add_flag("--json", common.json, "tell everything, or what failed, as JSON on standard output");
  app.add_flag("--verify,!--no-verify", check, "compare all content with its checksums (default), or do not");
  app.add_flag("--summary", sections.summary, "show the summary");
  app.add_flag("--process", sections.process, "show directory, user, limits, signals and timers");
  app.add_flag("--threads", sections.threads, "show the threads and the system calls they are in");
  app.add_flag("--mappings", sections.mappings, "show the mappings, as /proc/PID/maps does");
  app.add_flag("--descriptors", sections.descriptors, "show the descriptors");

  return tool::run(app, common, argc, argv, [&] {
    if (!sections.any()) sections = {true, true, true, true, true};
    const Image image = Image::open(path);
    const Verification verification = check ? verify(image, !common.json) : Verification{};
    if (common.json)
      std::fputs(to_json(image, verification).c_str(), stdout);
    else
      print_text(image, sections, verification);
    std::fflush(stdout);
    if (verification.error.empty()) return 0;
    std::fprintf(stderr, "cr_info: %s\n", verification.error.c_str());
    return static_cast<int>(Failure::permanent);
  });
}
