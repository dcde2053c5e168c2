// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/rendezvous.h"
