// SPDX-License-Identifier: Apache-2.0
// `trainyard-agent box`: the process inside the sandbox. Single-threaded; reads a BoxPlan, takes
// ordered steps, becomes the init of the job's processes, and reports on the control socket.
#pragma once

namespace ty::agent {

/// Exit status of the box process; what happened to the program is in the reports.
int box_main();

/// End this process without exit handlers: a leak checker, for one, cannot work in there.
[[noreturn]] void leave(int status);

/// `box --probe`: take the steps of the namespaces rung without a program. 0, or 1 with the reason
/// on standard error.
int box_probe_main();

}  // namespace ty::agent
