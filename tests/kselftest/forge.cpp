// SPDX-License-Identifier: GPL-2.0-only
// forge IN OUT CHANGE...: writes a modified copy of an image, as the owner of an image can.
// CHANGE is FIELD=VALUE (env.cap_permitted=2097152, descriptions[2].file.path=/etc/shadow), FIELD! (cleared), or
// +TEXT, a message in protobuf's text format that is merged; @FIELD in TEXT stands for the present number of
// elements of that field.
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "image/reader.h"
#include "image/writer.h"

using namespace reprise;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

std::runtime_error wrong(const std::string& change) { return std::runtime_error("cannot make the change " + change); }

/** Applies @p change, "FIELD=VALUE" or "FIELD!". */
void set_field(Message& top, const std::string& change) {
  const std::size_t end = change.find_first_of("=!");
  if (end == std::string::npos) throw wrong(change);
  const std::string value = change.substr(end + 1);
  static const std::regex step("([a-z_]+)(\\[([0-9]+)\\])?(\\.?)");
  const std::string path = change.substr(0, end);
  Message* message = &top;
  for (std::sregex_iterator at(path.begin(), path.end(), step), last; at != last; ++at) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName((*at)[1]);
    if (!field) throw wrong(change);
    const auto& access = *message->GetReflection();
    if ((*at)[4].length()) {
      message = field->is_repeated() ? access.MutableRepeatedMessage(message, field, std::stoi((*at)[3]))
                                     : access.MutableMessage(message, field);
    } else if (change[end] == '!') {
      access.ClearField(message, field);
    } else {
      access.ClearField(message, field);
      const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      const std::string form = field->name() + ": " + (text ? "\"" + value + "\"" : value);
      google::protobuf::TextFormat::Parser parser;
      if (!parser.MergeFromString(form, message)) throw wrong(change);
    }
  }
}

void add_text(Process& process, std::string text) {
  static const std::regex count("@([a-z_]+)");
  for (std::smatch found; std::regex_search(text, found, count);) {
    const FieldDescriptor* field = process.GetDescriptor()->FindFieldByName(found[1]);
    if (!field) throw wrong(text);
    text.replace(static_cast<std::size_t>(found.position()), static_cast<std::size_t>(found.length()),
                 std::to_string(process.GetReflection()->FieldSize(process, field)));
  }
  if (!google::protobuf::TextFormat::Parser().MergeFromString(text, &process)) throw wrong(text);
}

void copy(const Image& image, const Process& process, const char* to) {
  std::vector<cr_range> runs;
  for (const PageRun& run : image.runs()) runs.push_back({run.addr, run.len});
  ImageWriter writer(to, {.clobber = true, .sync = false});
  writer.begin(process, image.threads(), runs);
  std::string buffer;
  for (const cr_range& run : runs) {
    buffer.resize(run.len);
    image.read_pages(run.addr, buffer.data(), run.len);
    writer.write_pages(run.addr, buffer.data(), run.len);
  }
  buffer.resize(image.blob_bytes());
  image.read_blob(0, buffer.data(), buffer.size());
  writer.write_blob(0, buffer.data(), buffer.size());
  writer.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: forge IN OUT CHANGE...\n"), 2;
  try {
    const Image image = Image::open(argv[1]);
    Process process = image.process();
    process.clear_digests();  // they are of what the image said before
    for (int i = 3; i < argc; ++i) {
      if (argv[i][0] == '+')
        add_text(process, argv[i] + 1);
      else
        set_field(process, argv[i]);
    }
    copy(image, process, argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forge: %s\n", error.what());
    return 1;
  }
  return 0;
}
