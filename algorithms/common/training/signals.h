// SPDX-License-Identifier: Apache-2.0
// What the platform says to a training program by signals: SIGTERM, stop soon; SIGUSR1, save now.
#pragma once

namespace alg {

/// Handles SIGTERM (stop after this update, save, exit 143) and SIGUSR1 (save). Call once in
/// main(). A SIGTERM that is repeated changes nothing: launchers and shells send it twice.
void watch_signals();
bool stop_requested() noexcept;

/// Asks for a save, as SIGUSR1 does; from any thread or a signal handler.
void request_save() noexcept;
/// True once per request.
bool take_save_request() noexcept;

}  // namespace alg
