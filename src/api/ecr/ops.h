// SPDX-License-Identifier: Apache-2.0
// The calls of ECR that scripts make around an image; files in ops/. There is no registry: image
// names stand for environments of this machine, and pushing to one fails with docker's own message.
#pragma once

#include "api/table.h"

namespace ty::api::ecr {

std::string get_authorization_token(Call& call);
std::string describe_repositories(Call& call);
std::string create_repository(Call& call);
std::string describe_images(Call& call);
std::string batch_get_image(Call& call);

}  // namespace ty::api::ecr
