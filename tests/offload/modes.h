// SPDX-License-Identifier: GPL-2.0-only
// The modes of the program `offload`. Each checks its results, bit for bit, and ends the job if they are wrong.
#pragma once

#include <string>

#include "croff.hpp"
#include "mode.h"

/** The first one to ask for it, in the whole job: files in the working directory tell. */
bool first(const std::string &name);
/** Names and words of the command line. */
int argument(int index, int otherwise);
std::string word(int index, const std::string &otherwise);

/** The error code that a call of croff.hpp throws; its text contains `text`. */
template <class Call>
int refused(const std::string &text, Call call) {
  try {
    call();
  } catch (const croff::error &error) {
    if (std::string(error.what()).find(text) != std::string::npos) return error.code;
    fprintf(stderr, "another text than %s: %s\n", text.c_str(), error.what());
    return -error.code;
  }
  return 0;
}

// stencil.cpp: boosters that use MPI among themselves
void stencil();
void shared_stencil();
// graphs.cpp: dependencies and domains
void chain();
void domains();
void peers();
void clearance();
// shared.cpp: with two masters
void shared_domains();
// random.cpp
void random_tasks();
// failures.cpp
void lost();
void thrown();
void refusals();
void endless();
// nested.cpp
void recursion();
void nested();
void parricide();
