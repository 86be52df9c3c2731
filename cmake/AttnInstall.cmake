# Install rules, package configuration, pkg-config file.
