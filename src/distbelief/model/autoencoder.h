#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Networks that reconstruct their input from a narrow code: fully connected, or of convolutions with stride 2
// and their transposes. The output for each sample is the reconstruction, then the code: `code` numbers, or
// for a vae as many means and as many logarithms of variances (Kingma and Welling, 2013).
std::vector<OptionSpec> autoencoder_options();
std::vector<OptionSpec> vae_options();
Blueprint autoencoder_blueprint(const OptionMap& options, const DataShape& shape);
Blueprint vae_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
