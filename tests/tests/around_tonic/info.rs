//! What a caller reads of a call: on success, on error and on timeout.
