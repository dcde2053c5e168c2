// SPDX-License-Identifier: Apache-2.0
// One archive made by several nodes. Each writes a part: gzip of a tar without its end mark. Parts
// are joined where they lie, by server-side copies: gzip members follow one another, and so do the
// entries of open tars. What is too small to be a part of a multipart upload travels through here.
#pragma once

#include "agent/transfer/upload.h"
#include "aws/aws.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

/// Where the parts of an attempt are: those of an earlier one must not be taken for them.
struct PartsPlace {
    std::string bucket, output;  ///< key of the results' folder
    std::string attempt;
    /// "<output>/.parts/<attempt>/<node>".
    std::string folder(const std::string& node) const {
        return output + "/.parts/" + attempt + "/" + node;
    }
};

/// Join the parts called `name` ("model.tar.gz") of these nodes, in this order, into
/// <output>/<name>. Nodes without one are passed over; false, and no object, when all are. Throws
/// what S3 said, conflict (a part changed meanwhile), cancelled.
bool join_parts(const Transfer& how, const PartsPlace& place, const std::vector<std::string>& nodes,
                const std::string& name);

/// Another node may be told to join when one is lost in the middle of it: what was joined is noted
/// before the first part goes, so that it is not joined again from what is left.
void note_joined(const Transfer& how, const PartsPlace& place, bool model);
/// Whether a model was among what an earlier node has joined; nullopt: none has.
std::optional<bool> find_joined(const Transfer& how, const PartsPlace& place);

/// Remove whatever lies below <output>/.parts/. Parts that stay are a warning, no failure.
void remove_parts(const Transfer& how, const PartsPlace& place);

}  // namespace ty::agent
