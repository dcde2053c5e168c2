// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/tcp_store.h"
