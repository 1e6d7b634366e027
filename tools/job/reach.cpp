// SPDX-License-Identifier: GPL-2.0-only
#include "job/reach.h"

#include <memory>

#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "job/endpoints.h"

namespace reprise::job {
namespace {

using Done = std::function<void(Reach, const std::string&, std::shared_ptr<void>)>;

/** State shared by all attempts; lives until the last handler has run. */
struct Attempt : std::enable_shared_from_this<Attempt> {
  Attempt(asio::io_context& io, Done call) : timer(io), done(std::move(call)) {}

  void end(Reach reach, const std::string& endpoint) {
    if (!done) return;
    timer.cancel();
    for (auto& resolver : resolvers) resolver->cancel();
    auto call = std::exchange(done, nullptr);
    call(reach, endpoint, reach == Reach::open ? shared_from_this() : nullptr);
  }

  void answered(const asio::error_code& error, const std::string& endpoint) {
    if (!error) return end(Reach::open, endpoint);
    if (error == asio::error::connection_refused || error == asio::error::connection_reset)
      refused = true;
    else if (error != asio::error::network_unreachable && error != asio::error::address_family_not_supported && !endpoint.empty())
      silent = true;  // this host has no route to the others: they say nothing
    if (--left == 0) end(refused && !silent ? Reach::refused : Reach::silent, "");
  }

  asio::steady_timer timer;
  Done done;
  std::vector<std::unique_ptr<asio::ip::tcp::socket>> sockets;
  std::vector<std::unique_ptr<asio::ip::tcp::resolver>> resolvers;
  std::size_t left = 0;
  bool refused = false, silent = false;
};

}  // namespace

void find_reach(asio::io_context& loop, const std::vector<std::string>& endpoints, std::chrono::milliseconds limit, Done done) {
  auto attempt = std::make_shared<Attempt>(loop, std::move(done));
  attempt->timer.expires_after(limit);
  attempt->timer.async_wait([attempt](const asio::error_code& error) {
    if (!error) attempt->end(Reach::silent, "");
  });
  attempt->left = endpoints.size() + 1;
  for (const std::string& endpoint : endpoints) {
    const auto [host, port] = split_endpoint(endpoint);
    attempt->sockets.push_back(std::make_unique<asio::ip::tcp::socket>(loop));
    attempt->resolvers.push_back(std::make_unique<asio::ip::tcp::resolver>(loop));
    attempt->resolvers.back()->async_resolve(
        host, port,
        [attempt, endpoint, socket = attempt->sockets.back().get()](const asio::error_code& error,
                                                                      const asio::ip::tcp::resolver::results_type& results) {
          if (error || !attempt->done) return attempt->answered(error ? error : asio::error::operation_aborted, endpoint);
          asio::async_connect(*socket, results,
                              [attempt, endpoint](const asio::error_code& failed, const asio::ip::tcp::endpoint&) {
                                attempt->answered(failed, endpoint);
                              });
        });
  }
  asio::post(loop, [attempt] { attempt->answered(asio::error::operation_aborted, ""); });
}

}  // namespace reprise::job
