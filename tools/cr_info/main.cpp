// SPDX-License-Identifier: GPL-2.0-only
// cr_info IMAGE: shows the content of an image and verifies it.
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
      "Show the content of a process image and verify its checksums.\n"
      "Without section options, all sections are shown. SAVED is the part of a mapping that is in\n"
      "the image; the rest comes from the mapped file, or was never touched.",
      "cr_info"};
  app.footer(
      "Exit status: 0 the image is intact, 2 wrong usage, 3 no permission to read it, 5 damaged or not an image.\n"
      "An image is also an ELF core file: gdb PROGRAM IMAGE shows the stacks.");
  tool::Common common("cr_info");
  std::string path;
  bool check = true;
  Sections sections;
  tool::set_up(app);
  app.add_option("IMAGE", path, "file written by cr_checkpoint; -: standard input")->required()->type_name("");
  app.add_flag("--json", common.json, "print everything, or the error, as JSON on standard output");
  app.add_flag("--verify,!--no-verify", check, "verify all content against its checksums (default), or do not");
  app.add_flag("--summary", sections.summary, "show the summary");
  app.add_flag("--process", sections.process, "show directory, user, limits, signals and timers");
  app.add_flag("--threads", sections.threads, "show the threads and the system calls they are in");
  app.add_flag("--mappings", sections.mappings, "show the mappings, as /proc/PID/maps does");
  app.add_flag("--descriptors", sections.descriptors, "show the descriptors");

  return tool::run(app, common, argc, argv, [&] {
    if (!sections.any()) sections = {true, true, true, true, true};
    const int fd = tool::image_from_input(path);
    const Image image = fd < 0 ? Image::open(path) : Image::open(UniqueFd(fd), path);
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
