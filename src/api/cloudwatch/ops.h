// SPDX-License-Identifier: Apache-2.0
// CloudWatch: one function per operation, in ops/<operation>.cc; the table is in service.cc. Each
// takes the parameters and gives the answer as a document, times as seconds since 1970; null: no
// output. Private to api/cloudwatch/.
#pragma once

#include "api/api.h"
#include "api/cloudwatch/params.h"

namespace ty::api::cloudwatch {

Json get_metric_statistics(Call& call, const Params& params);
Json get_metric_data(Call& call, const Params& params);
Json list_metrics(Call& call, const Params& params);
Json put_metric_data(Call& call, const Params& params);

}  // namespace ty::api::cloudwatch
