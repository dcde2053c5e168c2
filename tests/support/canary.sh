#!/bin/sh
# The developer build must stop at a heap overflow and at a signed overflow.
if "$1" heap 2>/dev/null; then echo "AddressSanitizer is not armed"; exit 1; fi
if "$1" overflow 2>/dev/null; then echo "UndefinedBehaviorSanitizer is not armed"; exit 1; fi
