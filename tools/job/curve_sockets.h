// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file ZeroMQ sockets between the job's own programs: encrypted and authenticated by CURVE, ready to bind or connect. */
#include <string>

#include <zmq.hpp>

#include "job/keys.h"

namespace reprise::job {

/** A ROUTER whose context has a Doorkeeper (job/zap.h). Its queues have no limit; set one if the protocol does not bound them. */
zmq::socket_t server_socket(zmq::context_t& context, const KeyPair& own);

/** A DEALER. @param name routing id of this end, unique: 1 to 255 bytes, the first not 0 */
zmq::socket_t client_socket(zmq::context_t& context, const std::string& name, const std::string& server_public_key, const KeyPair& own);

}  // namespace reprise::job
