// SPDX-License-Identifier: Apache-2.0
// One archive made by several nodes. Each writes a part: gzip of a tar without its end mark. Parts
// are joined where they lie, by server-side copies: gzip members follow one another, and so do the
// entries of open tars. What is too small to be a part of a multipart upload travels through here.
#pragma once

#include "agent/transfer/upload.h"
#include "aws/aws.h"

#include <string>
#include <vector>

namespace ty::agent {

/// "<output>/.parts/<node>": where a node puts its parts.
std::string part_folder(const std::string& output, const std::string& node);

/// Join the parts called `name` ("model.tar.gz") of these nodes, in this order, into
/// <output>/<name>. Nodes without one are passed over; false, and no object, when all are. Throws
/// what S3 said, conflict (a part changed meanwhile), cancelled.
bool join_parts(const Transfer& how, const aws::S3Uri& output,
                const std::vector<std::string>& nodes, const std::string& name);

/// Remove whatever lies below <output>/.parts/. Parts that stay are a warning, no failure.
void remove_parts(const Transfer& how, const aws::S3Uri& output);

}  // namespace ty::agent
