//! The grpc side of the testbed.
