// SPDX-License-Identifier: GPL-2.0-only
#include "job/asking.h"

#include <chrono>

#include <asio/steady_timer.hpp>

#include "job/endpoints.h"
#include "job/reach.h"
#include "job/transport.h"

namespace reprise::job {

namespace {
constexpr std::uint64_t kLivingMs = 5000;
}  // namespace

Asked ask_crrun(const JobFile& job, const Ask& ask, std::uint64_t limit_ms) {
  asio::io_context loop(1);
  Asked out;
  ClientEvents events;
  events.answer = [&](Answer got) {
    out.answer = std::move(got);
    out.lives = Living::yes;
    loop.stop();
  };
  events.lost = [&](const std::string& why) {
    out.problem = "the crrun of " + job.spec.id() + " on " + job.host + " closed the connection: " + why;
    loop.stop();
  };
  std::string name = random_bytes(16);
  name[0] = 'q';
  Client client(loop, name, job.server.public_key, job.client, std::move(events));
  std::shared_ptr<void> tried;
  find_reach(loop, elsewhere(job.addresses, job.boot), std::chrono::seconds(5), [&](Reach reach, const std::string& endpoint, std::shared_ptr<void> held) {
    tried = std::move(held);
    if (reach == Reach::open) {
      client.connect(endpoint);
      client.ask(ask);
      return;
    }
    out.lives = reach == Reach::refused ? Living::no : Living::unknown;
    out.problem = reach == Reach::refused
                  ? "the crrun of " + job.spec.id() + " has ended; if its daemons run, take the job over on " + job.host +
                        " with: crrun --attach " + job.directory
                  : job.host + ", the host of the crrun of " + job.spec.id() + ", does not answer";
    loop.stop();
  });
  asio::steady_timer timer(loop);
  if (limit_ms) {
    timer.expires_after(std::chrono::milliseconds(limit_ms));
    timer.async_wait([&](std::error_code error) {
      if (error) return;
      out.problem = "the crrun of " + job.spec.id() + " has not answered within " + std::to_string(limit_ms / 1000) + " s";
      loop.stop();
    });
  }
  loop.run();
  return out;
}

Living crrun_lives(const JobFile& job) {
  Ask ask;
  ask.set_status(true);
  return ask_crrun(job, ask, kLivingMs).lives;
}

}  // namespace reprise::job
