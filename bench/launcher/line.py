# SPDX-License-Identifier: Apache-2.0
import time

print(f"{time.time():.6f}", flush=True)
