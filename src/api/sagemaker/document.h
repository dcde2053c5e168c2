// SPDX-License-Identifier: Apache-2.0
// The document kept with a job, and the description made of it.
//
// What is stored is the request as DescribeTrainingJob gives it back: the client's values
// untouched, the service's defaults added. Describing a job is then the stored text plus what
// changed since, and costs no parsing.
#pragma once

#include "api/api.h"
#include "base/json.h"
#include "shapes/shapes.h"

#include <string>

namespace ty::api::sagemaker {

/// The stored form of a request that passed its checks.
Json stored_document(const shapes::CreateTrainingJobRequest& request);

/// Answer of DescribeTrainingJob, as JSON text. Metrics are looked up for each definition; what is
/// billed follows the prices of the settings.
std::string describe_job(const jobs::Job& job, const Services& services);

/// The same as a document, with Tags: a record of Search.
Json search_record(const jobs::Job& job, const std::vector<jobs::Tag>& tags,
                   const Services& services);

}  // namespace ty::api::sagemaker
