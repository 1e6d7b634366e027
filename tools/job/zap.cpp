// SPDX-License-Identifier: GPL-2.0-only
#include "job/zap.h"

#include <stdexcept>
#include <vector>

#include "job/uninterrupted.h"

namespace reprise::job {
namespace {

zmq::socket_t bound(zmq::context_t& context) {
  zmq::socket_t socket(context, zmq::socket_type::rep);
  socket.set(zmq::sockopt::linger, 0);
  uninterrupted([&] { socket.bind("inproc://zeromq.zap.01"); });
  return socket;
}

std::string decoded(const std::string& key) {
  std::string bytes(32, '\0');
  if (key.size() != 40 || !::zmq_z85_decode(reinterpret_cast<std::uint8_t*>(bytes.data()), key.c_str()))
    throw std::runtime_error("the public key of the job's daemons is not valid Z85");
  return bytes;
}

}  // namespace

Doorkeeper::Doorkeeper(asio::io_context& loop, zmq::context_t& context, const std::string& client_public_key, Refused refused)
    : socket_(bound(context)), key_(decoded(client_public_key)), refused_(std::move(refused)),
      watch_(loop, socket_, [this] { answer(); }) {}

void Doorkeeper::answer() {
  // version, request, domain, address, routing id, mechanism, and with CURVE the client's public key
  std::vector<std::string> frames;
  bool more = true;
  while (more) {
    zmq::message_t frame;
    if (!uninterrupted([&] { return socket_.recv(frame, zmq::recv_flags::dontwait); })) return;
    more = frame.more();
    frames.push_back(frame.to_string());
  }
  frames.resize(std::max<std::size_t>(frames.size(), 7));
  const bool welcome = frames[0] == "1.0" && frames[5] == "CURVE" && frames[6] == key_;
  const std::string reply[] = {"1.0", frames[1], welcome ? "200" : "400", welcome ? "" : "not of this job", "", ""};
  for (std::size_t i = 0; i < std::size(reply); ++i)
    uninterrupted([&] {
      return socket_.send(zmq::buffer(reply[i]), i + 1 < std::size(reply) ? zmq::send_flags::sndmore : zmq::send_flags::none);
    });
  watch_.kick();
  if (!welcome && refused_)
    refused_(frames[3], frames[5] == "CURVE" ? "it does not have the job's key" : "it came without encryption");
}

}  // namespace reprise::job
