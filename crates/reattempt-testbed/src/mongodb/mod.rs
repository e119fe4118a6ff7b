//! The mongodb side of the testbed.
