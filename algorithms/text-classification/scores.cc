// SPDX-License-Identifier: Apache-2.0
#include "text-classification/scores.h"

#include "common/base/error.h"

#include <nlohmann/json.hpp>

#include <numeric>

namespace alg {

namespace {

double ratio(double part, double of) {
    return of > 0 ? part / of : 0;
}

}  // namespace

double Confusion::samples() const {
    return std::accumulate(numbers_.begin(), numbers_.end() - 1, 0.0);
}

double Confusion::loss() const {
    return ratio(numbers_.back(), samples());
}

double Confusion::accuracy() const {
    double right = 0;
    for (std::size_t i = 0; i < classes_; ++i) right += count(i, i);
    return ratio(right, samples());
}

double Confusion::row(std::size_t truth) const {
    double sum = 0;
    for (std::size_t i = 0; i < classes_; ++i) sum += count(truth, i);
    return sum;
}

double Confusion::column(std::size_t predicted) const {
    double sum = 0;
    for (std::size_t i = 0; i < classes_; ++i) sum += count(i, predicted);
    return sum;
}

double Confusion::precision(std::size_t label) const {
    return ratio(count(label, label), column(label));
}

double Confusion::recall(std::size_t label) const {
    return ratio(count(label, label), row(label));
}

double Confusion::f1(std::size_t label) const {
    return ratio(2 * count(label, label), row(label) + column(label));
}

double Confusion::macro_f1() const {
    double sum = 0;
    for (std::size_t i = 0; i < classes_; ++i) sum += f1(i);
    return ratio(sum, static_cast<double>(classes_));
}

nlohmann::json to_json(const Confusion& confusion, const std::vector<std::string>& labels) {
    nlohmann::json matrix = nlohmann::json::array(), classes = nlohmann::json::array();
    for (std::size_t truth = 0; truth < confusion.classes(); ++truth) {
        nlohmann::json row = nlohmann::json::array();
        for (std::size_t predicted = 0; predicted < confusion.classes(); ++predicted)
            row.push_back(static_cast<std::int64_t>(confusion.count(truth, predicted)));
        matrix.push_back(std::move(row));
        classes.push_back({{"label", labels[truth]},
                           {"precision", confusion.precision(truth)},
                           {"recall", confusion.recall(truth)},
                           {"f1", confusion.f1(truth)}});
    }
    return {{"accuracy", confusion.accuracy()},
            {"f1", confusion.f1()},
            {"macro_f1", confusion.macro_f1()},
            {"loss", confusion.loss()},
            {"samples", static_cast<std::int64_t>(confusion.samples())},
            {"confusion_matrix", std::move(matrix)},
            {"classes", std::move(classes)}};
}

std::string python_number(double value) {
    std::string text = format("{}", value);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
}

}  // namespace alg
