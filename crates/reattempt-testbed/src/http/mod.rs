//! The http side of the testbed.
